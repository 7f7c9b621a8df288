"""The memories of other programs, stored as if they were added: conversations by add_messages, notes as entries of the
caller's own word."""

from collections.abc import Callable, Iterator, Sequence

from layerlore.extraction.kinds.titles import shorten
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages import addition
from layerlore.memory.messages.threads import update_thread
from layerlore.memory.moving.foreign_notes import ForeignNote, UnreadableItem, put_notes
from layerlore.memory.moving.line_forms import ImportReport
from layerlore.memory.parts.message_shapes import parse_messages
from layerlore.memory.rules.validation import Limits, check_id
from layerlore.server.foreign.chat_exports import ForeignConversation
from layerlore.storage.core.errors import Conflict, InvalidInput, NotFound
from layerlore.storage.core.records import Json, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import message_pages
from layerlore.storage.moving import moved_threads
from layerlore.storage.moving.moved_threads import Mode
from layerlore.storage.threads import threads

_TRANSCRIPTS = ("claude-code", "codex")
_NOTES = 100


class ForeignImport:
    """Stores conversations and notes as they come. ``place`` says where what belongs to a resource of the file ("": to
    no one person) is to be stored; ``dry_run``: nothing is stored."""

    def __init__(
        self,
        engine: Engine,
        place: Callable[[str], Scope],
        mode: Mode,
        sent: WriteRequest,
        *,
        source: str,
        dry_run: bool = False,
    ) -> None:
        self.report = ImportReport()
        self._engine = engine
        self._place = place
        self._mode = mode
        self._sent = sent
        self._source = source
        self._dry = dry_run
        self._notes: list[ForeignNote] = []
        self._tried: dict[tuple[str, int], str] = {}

    async def take(self, found: ForeignConversation | ForeignNote | UnreadableItem) -> None:
        """Store what was found. Raises InvalidInput for resources that are not to be mixed, LimitExceeded beyond the quota, and
        StorageUnavailable."""
        if isinstance(found, UnreadableItem):
            self.report.skip("unread", found.where, found.why)
        elif isinstance(found, ForeignNote):
            # A batch belongs to one resource, since it is written in one transaction of one scope, and to one file, since
            # a file's new notes take the place of its old ones.
            last = self._notes[-1] if self._notes else found
            if (last.resource, last.file) != (found.resource, found.file):
                await self._store_notes()
            self._notes.append(found)
            if len(self._notes) >= _NOTES and not found.file:
                await self._store_notes()
        else:
            await self._store_conversation(found)

    async def finish(self) -> ImportReport:
        """Store what waits, and return what became of everything."""
        # The last notes wait until here, because batches are written when full.
        await self._store_notes()
        return self.report

    async def _store_conversation(self, found: ForeignConversation) -> None:
        scope = self._place(found.resource)
        try:
            check_id(found.thread_id, "its id", self._engine.limits.thread_id_chars)
        except InvalidInput as error:
            self.report.skip("thread", found.title or found.thread_id, str(error))
            return
        before = await self._find(scope, found.thread_id)
        # Checked one by one, so that a bad message is reported and the rest of the conversation stored.
        said = [*self._list_fit(found)]
        if self._source in _TRANSCRIPTS:
            said = await self._leave_out_copied(scope, found.thread_id, said)
        if self._dry:
            await self._count_new(scope, before, said)
            self.report.add("thread", "unchanged" if before else "added")
            return
        added = 0
        most = self._engine.limits.messages_per_call
        for at in range(0, len(said), most):
            added += await self._add(scope, found.thread_id, said[at : at + most])
        if added or (before is not None and before.title is None):
            await self._describe(scope, found, before, said)
        if said:
            self.report.add("thread", "unchanged" if before else "added")

    async def _leave_out_copied(self, scope: Scope, thread_id: str, said: Sequence[Json]) -> list[Json]:
        """The messages without those that a forked session has from another one, which is stored."""
        times = {each["id"]: each["created_at"] for each in said if each["created_at"] is not None}
        copied = (await self._engine.database.read(message_pages.find_copied, scope, thread_id, times)).ids
        if self._dry:
            # Of a trial nothing is stored, so that what came before is remembered here.
            copied |= {each for each in times if self._tried.setdefault((each, times[each]), thread_id) != thread_id}
        self.report.add("message", "unchanged", len(copied))
        return [each for each in said if each["id"] not in copied]

    async def _find(self, scope: Scope, thread_id: str) -> Thread | None:
        try:
            return await self._engine.database.read(threads.find, scope, thread_id)
        except NotFound:
            return None

    def _list_fit(self, found: ForeignConversation) -> Iterator[Json]:
        """The messages that can be stored, long texts in several; the others are named in the report."""
        ids: set[str] = set()
        for message in found.messages:
            for piece in _cut(message, self._engine.limits):
                try:
                    parse_messages([piece], self._engine.limits)
                except InvalidInput as error:
                    why = str(error).removeprefix("messages[0]").lstrip(".: ")
                    self.report.skip("message", f"{found.thread_id} {piece.get('id', '')}", why)
                    continue
                # A file may have one message twice.
                if piece["id"] not in ids:
                    ids.add(piece["id"])
                    yield piece

    async def _count_new(self, scope: Scope, thread: Thread | None, said: Sequence[Json]) -> None:
        ids = [each["id"] for each in said]
        if thread:
            known = await self._engine.database.read(message_pages.ids_there, scope, thread.thread_uid, ids)
        else:
            known = []
        self.report.add("message", "added", len(ids) - len(known))
        self.report.add("message", "unchanged", len(known))

    async def _add(self, scope: Scope, thread_id: str, said: list[Json]) -> int:
        """Add messages; one that contradicts what is stored does not keep the others out. Returns how many are new."""
        replaces = self._mode == "overwrite"
        try:
            answer = await addition.add_messages(
                self._engine, scope, thread_id, said, replace=replaces, sent=self._sent
            )
        # A conflict is about one message: alone, it can be named in the report.
        except Conflict as error:
            if len(said) > 1:
                return sum([await self._add(scope, thread_id, [each]) for each in said])
            self.report.skip("message", f"{thread_id} {said[0]['id']}", str(error))
            return 0
        for each in answer["messages"]:
            self.report.add("message", each["status"])
        if gone := answer.get("skipped_deleted"):
            self.report.skip("message", f"{thread_id} {gone[0]}", "it was deleted here, and stays so", len(gone))
        self.report.masked += answer.get("masked", 0)
        return sum(each["status"] == "added" for each in answer["messages"])

    async def _describe(
        self, scope: Scope, found: ForeignConversation, before: Thread | None, said: Sequence[Json]
    ) -> None:
        """Give a thread its title, and the times of what is in it."""
        if found.title:
            title = shorten(found.title, self._engine.limits.title_chars)
        else:
            title = None
        # A title that is there already may be the user's own.
        if title and (before is None or before.title is None):
            if before is None:
                metadata = found.metadata
            else:
                metadata = None
            await update_thread(self._engine, scope, found.thread_id, title=title, metadata=metadata, sent=self._sent)
        thread = await self._find(scope, found.thread_id)
        times = [each["created_at"] for each in said if each.get("created_at") is not None]
        if thread is None or not times:
            return
        # The parser turns any form of time into milliseconds; the text is only there because it needs one.
        spoken = parse_messages([{"role": "user", "content": "x", "created_at": at} for at in _ends(times)], _ANY)
        first, last = (each.created_at or 0 for each in spoken)
        now, uid = self._engine.now(), thread.thread_uid
        if before:
            earlier = before.updated_at
        else:
            earlier = None

        async def unit(tx: Tx) -> Json:
            # A source may have times in the future, which would stay on top of the list for good.
            await moved_threads.put_times(tx, scope, uid, first=first, last=min(last, now), before=earlier)
            return {}

        await self._engine.write(scope, self._sent, [], now, unit)

    async def _store_notes(self) -> None:
        notes, self._notes = self._notes, []
        if notes:
            scope = self._place(notes[0].resource)
            await put_notes(
                self._engine,
                scope,
                notes,
                self._mode,
                self.report,
                self._sent,
                source=self._source,
                dry_run=self._dry,
            )


_ANY = Limits()


def _ends(times: Sequence[object]) -> tuple[object, object]:
    return times[0], times[-1]


def _cut(message: Json, limits: Limits) -> Iterator[Json]:
    """A message, or several where its texts are longer than one may be."""
    most = limits.message_text_bytes // 4  # a character has four bytes at most
    parts = message["parts"]
    if sum(len(part.get("text", "")) for part in parts) <= most:
        yield message
        return
    pieces: list[Json] = []
    for part in parts:
        if part["type"] != "text":
            pieces.append(part)
            continue
        text = part["text"]
        pieces += [{**part, "text": text[at : at + most]} for at in range(0, len(text), most)]
    for number, piece in enumerate(pieces):
        yield {**message, "id": f"{message['id']}-{number + 1}" if number else message["id"], "parts": [piece]}
