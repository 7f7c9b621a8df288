"""Undoing what a call did, by the id that its answer named: deletes, forgotten entries, documents and plans that were
replaced, and corrections.

A row that changed again since stays, and the answer says how to bring the older one back in its place.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from typing_extensions import TypedDict

from layerlore.memory.documents.working_memory import (
    StoredDocumentInvalid,
    check_content,
    record_change,
    record_document_act,
)
from layerlore.memory.engine.engine import Engine, WriteRequest, make_undo_id, undoable_since
from layerlore.memory.entries.entry_curation import set_mark
from layerlore.memory.removal.deletion import record_entries
from layerlore.memory.removal.removal_answers import UndoableChange, UndoAnswer
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.validation import check_id
from layerlore.memory.work import plan_rules
from layerlore.storage.core import scopes
from layerlore.storage.core.errors import Conflict, NotFound
from layerlore.storage.core.records import DAY_MS, Scope, StoredPlan, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_curation, note_rows, working_memory
from layerlore.storage.removal import acts as stored_acts
from layerlore.storage.removal import deletions
from layerlore.storage.removal.acts import Act, ActPart, PartKind
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent
from layerlore.storage.work import plans

LAST = "last"
MOST_LISTED = 50
# Retention can act every hour, which must not push the acts of callers out of the list.
_MOST_OF_SERVER = 20

_REMOVING: frozenset[PartKind] = frozenset({"deletion", "dropped", "wrong"})
"""The parts that only a caller who may delete brings back."""


def removes(act: Act) -> bool:
    """Whether the act took something away, so that only who may delete can undo it."""
    return any(part.kind in _REMOVING for part in act.parts)


def _list_memories(scope: Scope) -> list[Scope]:
    """The memories whose acts a caller can undo: in a project the person's, too."""
    if scope.person:
        return [scope, scope.of_person]
    return [scope]


async def _find_act(engine: Engine, scope: Scope, undo_id: str) -> tuple[Act, Scope]:
    """The act of this id, or (``last``) the newest one that can be undone, and in whose memory it was. Raises NotFound, InvalidInput."""
    since = undoable_since(engine, engine.now())
    if undo_id.strip().lower() == LAST:
        newest = [
            (act, of)
            for of in _list_memories(scope)
            for act in await engine.database.read(stored_acts.list_open, of, since=since, most=1)
        ]
        if newest:
            return max(newest, key=lambda each: each[0].created_at)
        raise NotFound("there is nothing to undo: nothing was done that can be, or it is undone, or erased for good")
    wanted = check_id(undo_id.strip().lower(), "undo_id", engine.limits.id_chars)
    for of in _list_memories(scope):
        act = await engine.database.read(stored_acts.read, of, wanted, since=since)
        if act is not None:
            return act, of
    return _expect(None, wanted), scope


def _expect(act: Act | None, undo_id: str) -> Act:
    if act is None:
        raise NotFound(
            f"there is nothing to undo under {undo_id!r}: it is unknown, or what it did is erased for good; undo without "
            "undo_id lists what can be undone"
        )
    return act


async def list_acts(engine: Engine, scope: Scope, *, most: int = MOST_LISTED) -> list[UndoableChange]:
    """The changes that can be undone, the newest first: ``undo_id``, ``tool``, ``at``, ``until``, ``what`` in words,
    without content."""
    since = undoable_since(engine, engine.now())
    of_callers: list[Act] = []
    of_server: list[Act] = []
    for of in _list_memories(scope):
        of_callers += await engine.database.read(stored_acts.list_open, of, since=since, most=most)
        of_server += await engine.database.read(
            stored_acts.list_open, of, since=since, most=_MOST_OF_SERVER, by_server=True
        )
    listed = [*_sort_newest(of_callers)[:most], *_sort_newest(of_server)[:_MOST_OF_SERVER]]
    return [_show_act(engine, act) for act in _sort_newest(listed)]


def _sort_newest(acts: Sequence[Act]) -> list[Act]:
    return sorted(acts, key=lambda act: act.created_at, reverse=True)


def _show_act(engine: Engine, act: Act) -> UndoableChange:
    shown: UndoableChange = {
        "undo_id": act.undo_id,
        "tool": act.tool,
        "at": iso(act.created_at),
        "until": iso(act.created_at + engine.deleted_days * DAY_MS),
        "what": "; ".join(_describe_parts(act)),
    }
    thread_ids = sorted({thread_id for thread_id in act.thread_ids if thread_id})
    if thread_ids:
        shown["thread_ids"] = thread_ids
    return shown


def _describe_parts(act: Act) -> Iterator[str]:
    dropped = sum(part.kind == "dropped" for part in act.parts)
    if dropped:
        yield f"{dropped} {'note' if dropped == 1 else 'notes'} forgotten"
    replaced = sum(part.kind == "superseded" for part in act.parts)
    if replaced:
        yield f"{replaced} {'note' if replaced == 1 else 'notes'} replaced by a correction"
    yield from _describe_marks(act)
    for part, thread_id in zip(act.parts, act.thread_ids, strict=True):
        if part.kind == "deletion":
            whole = act.tool == "delete_thread"
            yield f"conversation {thread_id!r} deleted" if whole else f"messages of {thread_id!r} deleted"
        elif part.kind == "document":
            if thread_id is None:
                which = "the user profile"
            else:
                which = f"the session memory of {thread_id!r}"
            yield f"{which} changed from version {part.before_version}"
        elif part.kind == "plan":
            yield f"the plan of {thread_id!r} changed from revision {part.before_version}"


def _describe_marks(act: Act) -> Iterator[str]:
    for part in act.parts:
        if part.kind == "wrong":
            yield "a note marked as wrong" if part.after_version else "a note no longer marked as wrong"
        elif part.kind == "pinned":
            yield "a note pinned" if part.after_version else "a note no longer pinned"


async def undo(
    engine: Engine,
    scope: Scope,
    asked: str,
    *,
    sent: WriteRequest,
    force: bool = False,
    check: Callable[[Act], None] | None = None,
) -> UndoAnswer:
    """Undo the act of this id, or (``last``) the newest one: all of it that can be. ``check`` may refuse the act by
    raising. ``force``: bring the earlier version of a document back, even if it was changed since, or brought back
    already; that is an act of its own. Returns ``undo_id``, ``tool``, how much is back (``messages``, ``entries``,
    ``documents``, ``plans``), ``left`` with what was left as it is and why, ``undo`` (what undoes a ``force``), and
    ``already`` if nothing was to be done.

    Raises NotFound for an unknown act, and one that is erased; Conflict when all of it was changed since.
    """
    # With force it is another request, which must not get the answer of the plain one.
    arguments = [asked, "force"] if force else [asked]
    if sent.key:
        # The act may have been in the person's memory, and then its answer is there.
        for of in _list_memories(scope):
            kept = await engine.kept_answer(of, sent, arguments)
            if kept is not None:
                return cast("UndoAnswer", kept)
    found, scope = await _find_act(engine, scope, asked)
    if check:
        check(found)
    undo_id, now = found.undo_id, engine.now()
    since = undoable_since(engine, now)

    async def write(tx: Tx) -> UndoAnswer:
        # The first read only names the rows to lock. The act itself is locked after them, and read again.
        first = _expect(await stored_acts.read(tx, scope, undo_id, since=since), undo_id)
        # Deletes first, then threads in one order, then the resource, as everybody takes them.
        await deletions.hold(tx, scope, [part.ref for part in first.parts if part.kind == "deletion"])
        uids = sorted({part.thread_uid for part in first.parts if part.thread_uid})
        for uid in uids:
            await threads.lock_uid(tx, scope, uid)
        await scopes.hold(tx, scope)
        act = _expect(await stored_acts.lock(tx, scope, undo_id, since=since), undo_id)
        answer: UndoAnswer = {"undo_id": undo_id, "tool": act.tool}
        if act.undone and not force:
            return {**answer, "already": True}
        undoing = _UndoTransaction(tx, engine, scope, act, sent, now, force)
        await undoing.run()
        if not undoing.done and undoing.left:
            raise Conflict("nothing was undone: " + "; ".join(undoing.left))
        if act.undone and not undoing.counts:
            return {**answer, "already": True}
        await stored_acts.mark_undone(tx, scope, act, undoing.done, now=now)
        answer = {**answer, **undoing.counts}
        if undoing.left:
            answer["left"] = undoing.left
        if undoing.undo_id:
            answer["undo"] = undoing.undo_id
        return answer

    return await engine.write(scope, sent, arguments, now, write)


class _UndoneCounts(TypedDict, total=False):
    messages: int
    entries: int
    documents: int
    plans: int


@dataclass(slots=True)
class _UndoTransaction:
    """One transaction that undoes an act, part by part. ``done`` are the places of the parts that are undone."""

    tx: Tx
    engine: Engine
    scope: Scope
    act: Act
    sent: WriteRequest
    now: int
    force: bool
    undo_id: str = ""
    """The act of a forced change, if there was one."""
    done: list[int] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    counts: _UndoneCounts = field(default_factory=_UndoneCounts)

    async def run(self) -> None:
        for place, part in enumerate(self.act.parts):
            again = self.force and part.kind == "document"
            if part.kind in ("deletion", "document", "plan") and (again or place in self.act.open_parts):
                try:
                    await self._undo_part(part)
                # A part that changed since must not keep the others from being undone.
                except (NotFound, Conflict) as error:
                    self.left.append(str(error))
                else:
                    self.done.append(place)
        # After the messages that entries may rest on.
        await self._undo_dropped(self._places("dropped"))
        await self._undo_correction(self._places("superseded"))
        for place in [*self._places("wrong"), *self._places("pinned")]:
            await self._undo_mark(place)

    def _places(self, kind: PartKind) -> list[int]:
        return [place for place in self.act.open_parts if self.act.parts[place].kind == kind]

    def _count(self, name: Literal["messages", "entries", "documents", "plans"], number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    async def _undo_part(self, part: ActPart) -> None:
        if part.kind == "deletion":
            await self._undo_deletion(part)
        elif part.kind == "document":
            await self._undo_document(part)
        else:
            await self._undo_plan(part)

    async def _undo_deletion(self, part: ActPart) -> None:
        tx, scope, origin = self.tx, self.scope, self.sent.origin
        restored = await deletions.restore(tx, scope, part.ref, now=self.now, search_text=self.engine.search_text_of)
        if restored.kind == "thread":
            back = NewEvent("thread_restored", {"thread_id": restored.thread_id})
            uid = restored.thread_uid
            await events.record_of_resource(tx, scope, back, thread_uid=uid, origin=origin, now=self.now)
        else:
            thread = await threads.lock(tx, scope, restored.thread_id)
            back = NewEvent("messages_restored", {"count": restored.message_count})
            await events.record(tx, scope, thread, [back], origin=origin, now=self.now)
        # Entries that rest on these messages are visible again, and clients learn it from this event.
        shown_again = await entries.sourced_from(tx, scope, restored.thread_uid)
        await record_entries(tx, scope, shown_again, origin, now=self.now)
        self._count("messages", restored.message_count)

    async def _find_thread(self, uid: str) -> Thread:
        thread = await threads.lock_uid(self.tx, self.scope, uid)
        if thread is None:
            raise Conflict("its conversation is deleted: undo that first")
        return thread

    async def _undo_document(self, part: ActPart) -> None:
        thread = await self._find_thread(part.thread_uid) if part.thread_uid else None
        thread_id = thread.thread_id if thread else ""
        current = await working_memory.read_newest(self.tx, self.scope, thread)
        forgotten = self.act.tool == working_memory.FORGETTING
        kept = await working_memory.read_contents(
            self.tx, self.scope, thread_id, [part.before_version, part.after_version], forgotten=forgotten
        )
        name = f"the session memory of {thread_id!r}" if thread else "the user profile"
        if part.before_version not in kept:
            raise NotFound(
                f"version {part.before_version} of {name} is gone: it is erased, or older than the kept ones"
            )
        # It already has that content, through another call.
        if current is not None and current.content == kept[part.before_version]:
            return
        # A restored version is the same, by another number.
        left = kept.get(part.after_version)
        changed_since = current is None or (current.version != part.after_version and current.content != left)
        if changed_since and not self.force:
            found = f"version {current.version}, by {current.tool or current.actor}" if current else "empty"
            raise Conflict(
                f"{name} was changed since, and is now {found}, which an undo would replace; if that is meant: "
                f"undo(undo_id={self.act.undo_id!r}, force=true)"
            )
        if changed_since and forgotten:
            shown = await working_memory.read_contents(self.tx, self.scope, thread_id, [part.after_version])
            if part.after_version not in shown:
                raise Conflict(f"a later forget hides what {name} was then: undo that first")
        self._check_version(part, thread, kept[part.before_version], name)
        changed = await working_memory.change(
            self.tx,
            self.scope,
            thread_id,
            lambda _, was: was,
            how="restore",
            expected_version=current.version if current else None,
            restore_version=part.before_version,
            forgotten=forgotten,
            origin=self.sent.origin,
            new_uid="",
            now=self.now,
        )
        if forgotten:
            await working_memory.show_forgotten(
                self.tx, self.scope, thread, after=part.before_version, upto=part.after_version
            )
        await record_change(self.tx, self.scope, changed, "restore", self.sent.origin, now=self.now)
        await note_rows.refresh_document(self.tx, self.scope, thread, self.engine.search_text_of)
        self._count("documents")
        if self.force:
            made = await record_document_act(
                self.tx, self.engine, self.scope, changed, make_undo_id(self.engine), self.sent.origin.tool, self.now
            )
            self.undo_id = made.get("undo", "")

    def _check_version(self, part: ActPart, thread: Thread | None, content: str, name: str) -> None:
        if not content:
            return
        try:
            check_content(self.engine, "thread" if thread else "resource", content)
        except StoredDocumentInvalid:
            # The reason would quote what is stored, which the caller may not be allowed to read.
            raise Conflict(
                f"version {part.before_version} of {name} does not fit the format, the schema or the size that the "
                "document must have now"
            ) from None

    async def _undo_plan(self, part: ActPart) -> None:
        assert part.thread_uid is not None
        thread = await self._find_thread(part.thread_uid)
        history = await plans.read_history(self.tx, self.scope, thread.thread_id, [part.before_version])
        if history:
            was = history.revisions.get(part.before_version)
        else:
            was = None
        if history is None or was is None:
            raise NotFound(f"revision {part.before_version} of the plan of {thread.thread_id!r} is gone")
        if history.newest.revision != part.after_version:
            raise Conflict(
                f"the plan of {thread.thread_id!r} was changed since, and is now revision {history.newest.revision}, which "
                f"an undo would replace; plan(action='review', revision={part.before_version}) shows what it was"
            )
        old = was.plan

        def make(current: StoredPlan | None) -> StoredPlan:
            # Ids of steps are assigned once.
            if current:
                last_id = current.get("last_id", 0)
            else:
                last_id = 0
            return {**old, "last_id": max(old.get("last_id", 0), last_id)}

        done = await plans.change(
            self.tx,
            self.scope,
            thread.thread_id,
            make,
            expected_revision=part.after_version,
            actor=self.sent.origin.actor,
            new_uid="",
            now=self.now,
            is_open=plan_rules.is_open,
        )
        await note_rows.refresh(self.tx, self.scope, done.thread.thread_uid, self.engine.search_text_of, ("plan",))
        happened = NewEvent("plan_updated", {"revision": done.after.revision})
        await events.record(self.tx, self.scope, done.thread, [happened], origin=self.sent.origin, now=self.now)
        self._count("plans")

    async def _undo_dropped(self, places: Sequence[int]) -> None:
        ids = [self.act.parts[place].ref for place in places]
        back = await entry_curation.restore_dropped(self.tx, self.scope, ids, search_text=self.engine.search_text_of)
        await self._record_entries(places, ids, back)
        self.left += [
            f"entry {id_!r} cannot be brought back: it is erased, another took its place, or the messages that it rests "
            "on are deleted"
            for id_ in ids
            if id_ not in back
        ]

    async def _undo_correction(self, places: Sequence[int]) -> None:
        if not places:
            return
        # A correction made a new entry or refreshed an older one. Only a new one goes with the undo.
        at, new = next((at, part) for at, part in enumerate(self.act.parts) if part.kind in ("kept", "refreshed"))
        there = await entry_curation.read_standing(self.tx, self.scope, [new.ref])
        status, by = there.get(new.ref, ("dropped", None))
        if status == "superseded":
            self.left.append(
                f"the correction, entry {new.ref!r}, was itself corrected since by entry {by!r}: undo or forget that first"
            )
            return
        ids = [self.act.parts[place].ref for place in places]
        if new.kind == "kept" and status == "active":
            await entries.drop(self.tx, self.scope, [new.ref], now=self.now)
            happened = NewEvent("entries_changed", {"ids": [new.ref]})
            await events.record_of_resource(self.tx, self.scope, happened, origin=self.sent.origin, now=self.now)
        back = await entry_curation.restore_superseded(
            self.tx, self.scope, ids, new.ref, search_text=self.engine.search_text_of
        )
        await self._record_entries(places, ids, back)
        self.done += [at] if back else []
        self.left += [f"entry {id_!r} is gone, or the messages that it rests on are" for id_ in ids if id_ not in back]

    async def _undo_mark(self, place: int) -> None:
        part = self.act.parts[place]
        entry = await entry_curation.read_markable(self.tx, self.scope, part.ref)
        if entry is None:
            self.left.append(f"entry {part.ref!r} is gone, or the messages that it rests on are")
            return
        if part.kind == "pinned" and part.before_version and entry.status == "wrong":
            self.left.append(
                f"entry {part.ref!r} is marked as wrong, so it cannot be pinned: take that mark back first"
            )
            return
        await set_mark(
            self.tx, self.engine, self.scope, part.kind == "pinned", part.ref, bool(part.before_version), self.now
        )
        await self._record_entries([place], [part.ref], [part.ref])

    async def _record_entries(self, places: Sequence[int], ids: Sequence[str], back: Sequence[str]) -> None:
        if not back:
            return
        self._count("entries", len(back))
        self.done += [place for place, id_ in zip(places, ids, strict=True) if id_ in back]
        happened = NewEvent("entries_changed", {"ids": list(back)})
        await events.record_of_resource(self.tx, self.scope, happened, origin=self.sent.origin, now=self.now)
