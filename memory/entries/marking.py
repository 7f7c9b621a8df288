"""Marking an entry: pinned, so that it is told whatever is asked, or wrong, so that it is told no more."""

from collections.abc import Iterator

from layerlore.memory.engine import acts
from layerlore.memory.engine.engine import Engine, Sent
from layerlore.memory.entries.entry_answers import MarkedEntry
from layerlore.memory.rules.validation import check_text
from layerlore.storage.core import resource_lock
from layerlore.storage.core.errors import Conflict, InvalidInput, NotFound
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entry_marks
from layerlore.storage.derived.entries import Entry
from layerlore.storage.removal.acts import ActPart
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent


async def mark_entry(
    engine: Engine,
    scope: Scope,
    entry_id: str,
    *,
    pinned: bool | None,
    wrong: bool | None,
    accepted: bool = False,
    sent: Sent,
) -> MarkedEntry:
    """Mark an entry, or take a mark back; None leaves a mark as it is. ``accepted``: the user takes over what a shared file
    brought. In a project the entry may be the person's.

    Returns ``id``, ``pinned``, ``wrong`` and, where that changed something, ``undo``. Raises Conflict, InvalidInput, NotFound.
    """
    if pinned is None and wrong is None and not accepted:
        raise InvalidInput("pinned, wrong, accepted: give at least one of them; accepted can be true only")
    if accepted and wrong:
        raise InvalidInput("accepted, wrong: what the user accepts is not wrong; give one of the two")
    if pinned and wrong:
        raise InvalidInput(
            "pinned, wrong: what is wrong is told to nobody, so it cannot be pinned; give one of the two"
        )
    check_text(entry_id, "entry_id")
    owner = await _find_owner(engine, scope, entry_id)
    now, undo_id = engine.now(), acts.make_undo_id(engine)

    async def write(tx: Tx) -> MarkedEntry:
        await resource_lock.hold(tx, owner)
        was = await entry_marks.read_markable(tx, owner, entry_id)
        if was is None:
            raise _unknown(entry_id)
        if pinned and was.status == "wrong" and wrong is None:
            raise Conflict(
                f"entry {entry_id!r} is marked as wrong, so it cannot be pinned; wrong=false takes that mark back"
            )
        parts = list(_list_changes(was, pinned, wrong))
        for part in parts:
            await set_mark(tx, engine, owner, part.kind == "pinned", entry_id, bool(part.after_version), now)
        accepts = accepted and await entry_marks.accept(tx, owner, entry_id)
        if parts or accepts:
            happened = NewEvent("entries_changed", {"ids": [entry_id]})
            await events.record_of_resource(tx, owner, happened, origin=sent.origin, now=now)
        after = {part.kind: bool(part.after_version) for part in parts}
        return {
            "id": entry_id,
            "pinned": after.get("pinned", was.pinned_at is not None),
            "wrong": after.get("wrong", was.status == "wrong"),
            **await acts.record_act(tx, engine, owner, undo_id, sent.origin.tool, parts, now),
        }

    given = [entry_id, pinned, wrong, *([accepted] if accepted else [])]
    return await engine.write(owner, sent, given, now, write)


def _list_changes(was: Entry, pinned: bool | None, wrong: bool | None) -> Iterator[ActPart]:
    """What changes of the marks. What is marked as wrong is pinned no more."""
    is_pinned, is_wrong = was.pinned_at is not None, was.status == "wrong"
    if wrong is not None and wrong != is_wrong:
        yield ActPart("wrong", was.entry_id, None, int(is_wrong), int(wrong))
    if wrong:
        pinned = False
    if pinned is not None and pinned != is_pinned:
        yield ActPart("pinned", was.entry_id, None, int(is_pinned), int(pinned))


async def set_mark(tx: Tx, engine: Engine, scope: Scope, is_pin: bool, entry_id: str, marked: bool, now: int) -> None:
    """Pin an entry, or mark it as wrong, or take that back, in a transaction that holds the resource."""
    if is_pin:
        await entry_marks.pin(tx, scope, entry_id, at=now if marked else None)
    elif marked:
        await entry_marks.mark_wrong(tx, scope, entry_id, now=now)
    else:
        await entry_marks.unmark_wrong(tx, scope, entry_id, search_text=engine.search_text_of)


async def _find_owner(engine: Engine, scope: Scope, entry_id: str) -> Scope:
    """Whose memory has the entry: in a project the project's or the person's. Raises NotFound."""
    for of in [scope, scope.of_person] if scope.person else [scope]:
        if await engine.database.read(entry_marks.read_markable, of, entry_id) is not None:
            return of
    raise _unknown(entry_id)


def _unknown(entry_id: str) -> NotFound:
    return NotFound(f"there is no entry {entry_id!r}; nothing was marked. memory://entries lists them")
