"""Imports of our own export: lines are stored as they come, each batch in one transaction.

Stored rows are found again and never doubled, so that an interrupted import goes on when it is started again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.moving.line_forms import (
    RECORD,
    DraftMaker,
    ImportReport,
    Line,
    LineForms,
    NumberedLine,
    ReadyMessages,
    ThreadPlaces,
    check_header,
    is_number,
    read_entry_sources,
    read_runs,
)
from layerlore.memory.rules.validation import check_id, check_new_id, describe
from layerlore.storage.core.errors import Conflict, InvalidInput, NotFound
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import note_rows as indexed_notes
from layerlore.storage.derived.entries import Entry, content_hash
from layerlore.storage.messages import message_pages, message_rows
from layerlore.storage.moving import moved_entries, moved_rows, moved_threads
from layerlore.storage.moving.moved_entries import MovedEntry
from layerlore.storage.moving.moved_rows import (
    LOGS,
    MOVED,
    NOTES,
    PLAN,
    PROFILE,
    RESOURCE_EVENT,
    RUN,
    SESSION_MEMORY,
    MovedTable,
    RowsOutcome,
    VersionRun,
)
from layerlore.storage.moving.moved_threads import DESCRIBED, MessageOutcome, Mode, MovedMessage, MovedThread
from layerlore.storage.threads import threads

_OF_SCOPE = {"message", "entry", "thread", "erased", "thread_state", "resource_state", *MOVED}
_AT_END = {each.line for each in (*NOTES, PLAN, SESSION_MEMORY)}
_OTHER = "something else is stored in its place, and stays"


@dataclass(slots=True)
class _OpenThread:
    """The thread whose lines are being read. ``uid`` None: it is deleted here, and its lines are passed over."""

    name: str
    uid: str | None
    drafts: DraftMaker
    places: ThreadPlaces
    left_out: int = 0
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    runs: list[VersionRun] = field(default_factory=list)


class Import:
    """Stores the lines of an export, in their order. ``place`` says where a scope that the lines name
    is to be stored; ``expect`` gets their number before anything is stored, and may raise InvalidInput. ``dry_run``:
    nothing is stored, and of messages it is counted which are new."""

    def __init__(
        self,
        engine: Engine,
        place: Callable[[Scope], Scope],
        mode: Mode,
        sent: WriteRequest,
        *,
        expect: Callable[[int], None] = lambda scopes: None,
        dry_run: bool = False,
    ) -> None:
        self.report = ImportReport()
        self.ended = False
        self._engine = engine
        self._place = place
        self._expect = expect
        self._mode = mode
        self._sent = sent
        self._dry = dry_run
        self._forms = LineForms(engine)
        self._scope: Scope | None = None
        self._has_broken = False
        self._thread: _OpenThread | None = None
        self._places: dict[str, ThreadPlaces] = {}
        self._ids: dict[str, str] = {}
        self._resource_events: list[dict[str, Any]] = []
        self._profile: tuple[list[dict[str, Any]], list[VersionRun]] = ([], [])
        self._writing: asyncio.Task[None] | None = None

    async def take(self, lines: Sequence[NumberedLine]) -> None:
        """Store some lines. Raises InvalidInput for lines of another format, LimitExceeded beyond the quota,
        StorageUnavailable."""
        # Lines refer to earlier ones, so their order stays; those of one kind in a row share a transaction.
        for kind, group in groupby(lines, key=lambda each: each.line.get(RECORD)):
            some = list(group)
            # Only messages are stored in the background: other lines wait, since they may refer to these.
            if self._scope is None and self._has_broken and isinstance(kind, str) and kind in _OF_SCOPE:
                self.report.skip(kind, f"line {some[0].number}", "the line with its scope is broken", len(some))
                continue
            if kind == "message":
                await self._take_messages(some)
                continue
            await self.settle()
            if kind == "entry":
                await self._take_entries(some)
            elif isinstance(kind, str) and kind in {each.line for each in (*LOGS, RUN)}:
                await self._take_rows(MOVED[kind], some)
            else:
                for each in some:
                    await self._take_one(str(kind), each)

    async def finish(self) -> ImportReport:
        """Store what waits, and return what became of everything."""
        await self.settle()
        await self._end_scope()
        return self.report

    async def settle(self) -> None:
        """Wait for what is being stored."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            await writing

    async def _take_one(self, kind: str, each: NumberedLine) -> None:
        line, where = each.line, f"line {each.number}"
        if each.broken:
            self._skip_broken(each)
        elif kind == "header":
            check_header(line)
            if is_number(line.get("scopes")):
                self._expect(line["scopes"])
        elif kind == "scope":
            await self._end_scope()
            try:
                named = Scope("", *(check_id(line.get(name), name, 255) for name in ("agent", "resource")))
            except InvalidInput as error:
                self._skip_broken(replace(each, broken=str(error)))
                return
            self._scope = self._place(named)
        elif kind == "end":
            self.ended = True
        elif kind == "thread":
            await self._begin_thread(each)
        elif kind == "erased":
            await self._take_erased(each)
        elif kind in _AT_END or kind in (PROFILE.line, RESOURCE_EVENT.line):
            self._keep_row(MOVED[kind], each)
        elif kind == "thread_state":
            await self._end_thread(each)
        elif kind == "resource_state":
            await self._end_resource(line, where)
            await self._end_scope()
        else:
            self.report.skip(kind, where, f"unknown record {describe(line.get(RECORD))}")

    def _skip_broken(self, each: NumberedLine) -> None:
        self.report.skip("line", f"line {each.number}", each.broken)
        self._has_broken = True
        # The line may have been a message of this thread: then notes on its messages do not fit any more.
        if self._thread is not None:
            self._thread.left_out += 1

    async def _write(self, unit: Callable[[Tx], Awaitable[dict[str, int]]]) -> None:
        await self._engine.write(self._where, self._sent, [], self._engine.now(), unit)

    @property
    def _where(self) -> Scope:
        if self._scope is None:
            raise InvalidInput("a line with a scope must come before what belongs to it: this is no whole export")
        return self._scope

    async def _begin_thread(self, each: NumberedLine) -> None:
        line, where = each.line, f"line {each.number}"
        # If this thread cannot be read, its lines must not go to the thread before it.
        scope, self._thread = self._where, None
        try:
            name = check_new_id(line.get("thread"), "thread", self._engine.limits.thread_id_chars)
            row, masked = self._forms.read_thread(line, where)
        except InvalidInput as error:
            self.report.skip("thread", where, str(error))
            return
        self.report.masked += masked
        described = {column: row[column] for column in DESCRIBED}
        moved = MovedThread(row["uid"], name, row["created_at"], row["updated_at"], described)
        uid: str | None = row["uid"]
        if self._dry:
            there = await self._engine.database.read(_find, scope, name)
            self.report.add("thread", "unchanged" if there else "added")
            uid = there or uid
        else:
            put = await self._put_thread(moved)
            uid = put.uid
            if uid is not None:
                self.report.add("thread", "added" if put.made else "replaced" if put.changed else "unchanged")
        # A thread of the same name here keeps its own uid, and the imported lines go to that.
        places = ThreadPlaces(uid or "", uid == row["uid"])
        self._thread = _OpenThread(name, uid, DraftMaker(self._engine), places)
        if uid is not None:
            self._places[name] = places
        else:
            self.report.skip(
                "thread", f"thread {name!r}", "it is deleted here and stays so; `layerlore undo` brings it back"
            )

    async def _put_thread(self, moved: MovedThread) -> moved_threads.ThreadOutcome:
        new_uid = self._engine.new_id()
        found: list[moved_threads.ThreadOutcome] = []

        async def unit(tx: Tx) -> dict[str, int]:
            # Assigned anew, since the database may run the unit again.
            found[:] = [await moved_threads.put_thread(tx, self._where, moved, self._mode, new_uid=new_uid)]
            return {}

        await self._write(unit)
        return found[0]

    def _open(self, each: NumberedLine, kind: str) -> _OpenThread | None:
        """The thread that a line belongs to; None, and the line is passed over, if it cannot be stored."""
        thread = self._thread
        if thread is None or thread.name != each.line.get("thread"):
            why = f"its thread {describe(each.line.get('thread'))} was not begun by a line before it"
            self.report.skip(kind, f"line {each.number}", why)
            return None
        if thread.uid is None:
            self.report.add(kind, "skipped")
            return None
        return thread

    async def _take_erased(self, each: NumberedLine) -> None:
        hashes = each.line.get("id_hashes")
        thread = self._open(each, "erased")
        # The hashes were made with the uid of the thread, so they mean nothing under another one.
        if thread is None or self._dry or not thread.places.same_uid or not isinstance(hashes, list):
            return
        wanted = [value for value in hashes if isinstance(value, str) and len(value) == 64]
        uid = thread.places.uid

        async def unit(tx: Tx) -> dict[str, int]:
            await moved_threads.put_erased(tx, self._where, uid, wanted)
            return {}

        await self._write(unit)

    async def _take_messages(self, lines: Sequence[NumberedLine]) -> None:
        for _, group in groupby(lines, key=lambda each: each.line.get("thread")):
            some = list(group)
            thread = self._open(some[0], "message")
            if thread is None:
                # The first line is in the report by now; the others are counted, too.
                for each in some[1:]:
                    self._open(each, "message")
                continue
            ready = await thread.drafts.make(some)
            for skipped in ready.skipped:
                self.report.skip("message", skipped.where, skipped.why)
            # A message that is left out makes the notes of the thread unfit: see _put_ending.
            thread.left_out += len(ready.skipped)
            self.report.masked += ready.masked
            await self.settle()
            if self._dry:
                await self._count_new(thread, ready)
            elif ready.moved:
                # The next batch is parsed and masked while this one is stored.
                self._writing = asyncio.create_task(self._put_messages(thread, ready))

    async def _count_new(self, thread: _OpenThread, ready: ReadyMessages) -> None:
        ids = [each.draft.id for each in ready.moved]
        there, gone = await self._engine.database.read(_known, self._where, thread.places.uid, ids)
        self.report.add("message", "added", len(ids) - there - gone)
        self.report.add("message", "unchanged", there)
        if gone:
            self.report.skip("message", f"thread {thread.name!r}", "deleted here, and stays so", gone)

    async def _put_messages(self, thread: _OpenThread, ready: ReadyMessages) -> None:
        try:
            puts = await self._put_some(thread, ready.moved)
            self._note_puts(thread, ready, puts)
        # One message in conflict must not keep out its batch, so each is stored alone.
        except Conflict:
            for at, moved in enumerate(ready.moved):
                one = ReadyMessages([ready.numbers[at]], [moved], [ready.changed[at]], [], 0)
                try:
                    self._note_puts(thread, one, await self._put_some(thread, [moved]))
                except Conflict as error:
                    thread.places.lose(moved.seq)
                    self.report.skip("message", f"line {ready.numbers[at]}", str(error))

    async def _put_some(self, thread: _OpenThread, moved: Sequence[MovedMessage]) -> list[MessageOutcome]:
        now = self._engine.now()
        found: list[MessageOutcome] = []

        async def unit(tx: Tx) -> dict[str, int]:
            found[:] = await moved_threads.put_messages(
                tx,
                self._where,
                thread.places.uid,
                moved,
                self._mode,
                now=now,
                search_text=self._engine.search_text_of,
            )
            return {"messages": sum(each.status in ("added", "replaced") for each in found)}

        await self._write(unit)
        return found

    def _note_puts(self, thread: _OpenThread, ready: ReadyMessages, puts: Sequence[MessageOutcome]) -> None:
        for number, moved, changed, put in zip(ready.numbers, ready.moved, ready.changed, puts, strict=True):
            where = f"line {number}"
            if put.status == "deleted":
                thread.places.lose(moved.seq)
                self.report.skip("message", where, "it was deleted here, and stays so")
                continue
            thread.places.put(moved.seq, moved.revision, put, changed)
            if put.status == "kept":
                self.report.skip("message", where, "another text is stored under its id, and stays")
            else:
                self.report.add("message", put.status)

    def _read_rows(self, of: MovedTable, lines: Sequence[NumberedLine]) -> list[dict[str, Any]]:
        """The rows of lines that can be stored where their messages are now."""
        rows: list[dict[str, Any]] = []
        for each in lines:
            thread = self._open(each, of.line)
            if thread is None:
                continue
            try:
                row, masked = self._forms.read_row(of, each.line, f"line {each.number}")
            except InvalidInput as error:
                self.report.skip(of.line, f"line {each.number}", str(error))
                continue
            self.report.masked += masked
            if row.get("message_seq") is not None:
                place = thread.places.find(row["message_seq"])
                # A row without its message would point to another one, or to nothing.
                if place is None:
                    self.report.skip(of.line, f"line {each.number}", "the message that it belongs to is not here")
                    continue
                row["message_seq"] = place[0]
            rows.append(row)
        return rows

    async def _take_rows(self, of: MovedTable, lines: Sequence[NumberedLine]) -> None:
        rows = self._read_rows(of, lines)
        thread = self._thread
        if not rows or thread is None:
            return
        if self._dry:
            self.report.add(of.line, "checked", len(rows))
            return
        uid = thread.places.uid
        found: list[RowsOutcome] = []

        async def unit(tx: Tx) -> dict[str, int]:
            await threads.lock_uid(tx, self._where, uid)
            found[:] = [await moved_rows.put_rows(tx, self._where, of, uid, rows, self._mode)]
            return {}

        await self._write(unit)
        self._note_rows(of.line, f"{of.line}s of thread {thread.name!r}", found[0])

    def _note_rows(self, kind: str, where: str, put: RowsOutcome, why: str = _OTHER) -> None:
        self.report.add(kind, "added", put.added)
        self.report.add(kind, "unchanged", put.unchanged)
        self.report.add(kind, "replaced", put.replaced)
        if put.kept:
            self.report.skip(kind, where, why, put.kept)

    def _keep_row(self, of: MovedTable, each: NumberedLine) -> None:
        """Keep a row until its thread, or the scope, ends: what belongs together is stored together."""
        if of.of_thread:
            rows = self._read_rows(of, [each])
            if rows and self._thread is not None:
                self._thread.rows.setdefault(of.line, []).extend(rows)
                self._thread.runs += read_runs(each.line, rows[0].get("version", 0), self._places)
            return
        try:
            row, masked = self._forms.read_row(of, each.line, f"line {each.number}")
        except InvalidInput as error:
            self.report.skip(of.line, f"line {each.number}", str(error))
            return
        self.report.masked += masked
        if of is PROFILE:
            self._profile[0].append(row)
            self._profile[1].extend(read_runs(each.line, row["version"], self._places))
            return
        name = each.line.get("thread")
        if isinstance(name, str):
            places = self._places.get(name)
        else:
            places = None
        if name is None or places is not None:
            self._resource_events.append({**row, "thread_uid": places.uid if places else None})

    async def _end_thread(self, each: NumberedLine) -> None:
        thread = self._open(each, "thread_state")
        self._thread = None
        if thread is None:
            return
        try:
            state, masked = self._forms.read_state(each.line, f"line {each.number}")
        except InvalidInput as error:
            self.report.skip("thread_state", f"line {each.number}", str(error))
            return
        self.report.masked += masked
        if self._dry:
            for kind, rows in thread.rows.items():
                self.report.add(kind, "checked", len(rows))
            return
        now, found = self._engine.now(), dict[MovedTable, RowsOutcome]()

        async def unit(tx: Tx) -> dict[str, int]:
            found.clear()
            found.update(await self._put_ending(tx, thread, state, now))
            return {}

        await self._write(unit)
        for of, put in found.items():
            made_anew = "this thread has messages or notes of its own here, so notes are made anew"
            if of in NOTES:
                why = made_anew
            else:
                why = _OTHER
            self._note_rows(of.line, f"{of.line} lines of thread {thread.name!r}", put, why)

    async def _put_ending(
        self, tx: Tx, thread: _OpenThread, state: dict[str, Any], now: int
    ) -> dict[MovedTable, RowsOutcome]:
        scope, uid = self._where, thread.places.uid
        # Another process may have deleted the thread since it was begun.
        if await threads.lock_uid(tx, scope, uid) is None:
            return {}
        found: dict[MovedTable, RowsOutcome] = {}
        notes = {of: thread.rows.get(of.line, []) for of in NOTES}
        # Notes refer to messages by their seqs: they hold only if each message is where it was.
        whole = thread.places.same and not thread.left_out
        if any(notes.values()):
            if whole:
                put = await moved_rows.put_notes(tx, scope, uid, notes)
            else:
                put = RowsOutcome(kept=1)
            for of, rows in notes.items():
                how = {"added": put.added, "unchanged": put.unchanged, "kept": put.kept}
                found[of] = RowsOutcome(**{name: len(rows) for name, number in how.items() if number and rows})
            whole = whole and not put.kept
        for of in (PLAN, SESSION_MEMORY):
            if versions := thread.rows.get(of.line):
                found[of] = await moved_rows.put_versions(tx, scope, of, uid, versions, thread.runs, self._mode)
        # Without its notes the thread is to be observed anew, so the cursors stay where they are.
        await moved_threads.put_state(tx, scope, uid, state, cursors=whole, now=now)
        # The index of notes is made from the rows, so an export has no lines of it.
        await indexed_notes.refresh(tx, scope, uid, self._engine.search_text_of)
        return found

    async def _take_entries(self, lines: Sequence[NumberedLine]) -> None:
        moved: list[MovedEntry] = []
        numbers: list[int] = []
        for each in lines:
            try:
                row, masked = self._forms.read_entry(each.line, f"line {each.number}")
            except InvalidInput as error:
                self.report.skip("entry", f"line {each.number}", str(error))
                continue
            self.report.masked += masked
            entry = Entry(content_hash=content_hash(row["content"]), **row)
            moved.append(MovedEntry(entry, tuple(read_entry_sources(each.line, self._places))))
            numbers.append(each.number)
        if self._dry:
            self.report.add("entry", "checked", len(moved))
            return
        new_ids = {each.entry.entry_id: self._engine.new_id() for each in moved}
        puts: list[moved_entries.EntryOutcome] = []

        async def unit(tx: Tx) -> dict[str, int]:
            puts[:] = await moved_entries.put_entries(
                tx, self._where, moved, self._mode, new_ids=new_ids, search_text=self._engine.search_text_of
            )
            return {"entries": sum(put.status in ("added", "replaced") for put in puts)}

        await self._write(unit)
        for number, brought, put in zip(numbers, moved, puts, strict=True):
            # The same content is here under another id: entries that name the old id are changed at the end.
            if put.entry_id != brought.entry.entry_id:
                self._ids[brought.entry.entry_id] = put.entry_id
            if put.status in ("added", "unchanged", "replaced"):
                self.report.add("entry", put.status)
            else:
                self.report.skip("entry", f"line {number}", _WHY_NOT[put.status])

    async def _end_resource(self, line: Line, where: str) -> None:
        """Bring the log of the resource, which goes on from what the line says."""
        rows, self._resource_events = self._resource_events, []
        next_seq = line.get("next_event_seq")
        if not is_number(next_seq) or self._dry:
            self.report.add(RESOURCE_EVENT.line, "checked", len(rows))
            return
        found: list[RowsOutcome] = []

        async def unit(tx: Tx) -> dict[str, int]:
            found[:] = [await moved_rows.put_resource_events(tx, self._where, rows, next_seq)]
            return {}

        if rows or next_seq > 1:
            await self._write(unit)
            self._note_rows(RESOURCE_EVENT.line, where, found[0], "this resource has a log of its own here")

    async def _end_scope(self) -> None:
        """Store what belongs to no thread, once all threads are there."""
        (rows, runs), ids = self._profile, self._ids
        self._profile, self._ids, self._places, self._thread = ([], []), {}, {}, None
        if self._dry:
            self.report.add(PROFILE.line, "checked", len(rows))
            return
        found: list[RowsOutcome] = []

        async def unit(tx: Tx) -> dict[str, int]:
            if rows:
                found[:] = [await moved_rows.put_versions(tx, self._where, PROFILE, "", rows, runs, self._mode)]
                await indexed_notes.refresh_document(tx, self._where, None, self._engine.search_text_of)
            if ids:
                await moved_entries.rename(tx, self._where, ids)
            return {}

        if rows or ids:
            await self._write(unit)
        if found:
            self._note_rows(PROFILE.line, "the profile", found[0])
        # A line of another scope, whose own line is broken, must not come into this one.
        self._scope = None


_WHY_NOT = {
    "kept": "the same content is stored with another state, and stays",
    "forgotten": "it was forgotten here, and stays so",
    "unproven": "no message that it rests on is here",
}


async def _find(tx: Tx, scope: Scope, name: str) -> str | None:
    try:
        return (await threads.find(tx, scope, name)).thread_uid
    except NotFound:
        return None


async def _known(tx: Tx, scope: Scope, uid: str, ids: Sequence[str]) -> tuple[int, int]:
    """How many of these messages are there, and how many were erased."""
    there = await message_pages.ids_there(tx, scope, uid, ids)
    return len(there), len(await message_rows.find_erased_ids(tx, scope, uid, sorted({*ids} - {*there})))
