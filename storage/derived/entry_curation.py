"""Entries for people who curate them: lists, marks (pinned or wrong), and the return of dropped ones."""

from collections.abc import Collection
from functools import cache
from typing import Any

from sqlalchemy import Select, and_, bindparam, exists, or_, select, text, tuple_, update

from layerlore.storage.core.records import Scope, SearchText
from layerlore.storage.core.scopes import in_scope, of_scope
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import SCOPE, entries
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.entries import (
    COLUMNS,
    IS_SEEN,
    IS_SUPPORTED,
    Entry,
    Status,
    erase,
    hide_unseen,
    read_seen,
    show_seen,
)

_MOST_STEPS = 50
"""The most successions of entries that are followed, from one to the one that replaced it."""

_PLACE = (entries.c.created_at, entries.c.entry_id)
_BEFORE = tuple_(*_PLACE) < tuple_(
    bindparam("before_at", type_=entries.c.created_at.type), bindparam("before_id", type_=entries.c.entry_id.type)
)
_is_replaced = (in_scope(entries), entries.c.status == "superseded", IS_SUPPORTED)
_REPLACED = (
    select(*COLUMNS)
    .where(*_is_replaced, any_of(entries.c.superseded_by, "ids"))
    .order_by(entries.c.seen_at.desc(), entries.c.entry_id)
)
_NAMED = select(*COLUMNS).where(
    in_scope(entries),
    any_of(entries.c.entry_id, "ids"),
    or_(entries.c.status == "active", entries.c.status == "superseded"),
    IS_SUPPORTED,
)
_SUCCESSOR = select(entries.c.superseded_by).where(*_is_replaced, entries.c.entry_id == bindparam("of_entry"))


_LOOKED_AT = 500
"""A user's preferences are searched for among this many of the newest entries, so that the cost is the same in any
scope."""
_newest = (
    select(entries.c.entry_id)
    .where(in_scope(entries), entries.c.status == "active")
    .order_by(*(column.desc() for column in _PLACE))
    .limit(_LOOKED_AT)
)
_PREFERENCES = (
    select(*COLUMNS)
    .where(in_scope(entries), IS_SEEN, entries.c.entry_id.in_(_newest))
    .where(entries.c.kind == "preference", entries.c.trust == "user")
    .order_by(entries.c.seen_at.desc(), entries.c.entry_id)
    .limit(bindparam("most"))
)


@cache
def _page(continued: bool) -> Select[Any]:
    query = select(*COLUMNS).where(in_scope(entries), IS_SEEN).limit(bindparam("page_size"))
    if continued:
        query = query.where(_BEFORE)
    return query.order_by(*(column.desc() for column in _PLACE))


async def read_page(tx: Tx, scope: Scope, *, before: tuple[int, str] | None, limit: int) -> list[Entry]:
    """The entries that can be seen, those kept last first; ``before``: when the last one of the page before was made, and
    its id."""
    if before:
        behind = dict(zip(("before_at", "before_id"), before, strict=True))
    else:
        behind = {}
    return [
        Entry(*row) for row in await tx.all(_page(before is not None), **of_scope(scope), page_size=limit, **behind)
    ]


async def read_named(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, Entry]:
    """These entries by id, if they are visible or only replaced by another one."""
    if ids:
        rows = await tx.all(_NAMED, **of_scope(scope), ids=list(ids))
    else:
        rows = ()
    return {entry.entry_id: entry for entry in (Entry(*row) for row in rows)}


async def read_preferences(tx: Tx, scope: Scope, *, most: int) -> list[Entry]:
    """The user's own preferences, the newest first, among the newest entries."""
    if most:
        return [Entry(*row) for row in await tx.all(_PREFERENCES, **of_scope(scope), most=most)]
    return []


async def read_replaced(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, list[Entry]]:
    """By each of these entries those whose place it took, and those whose place these had taken, the newest first."""
    found: dict[str, list[Entry]] = {entry_id: [] for entry_id in ids}
    leads_to = {entry_id: entry_id for entry_id in ids}
    sought = list(ids)
    for _ in range(_MOST_STEPS):
        if sought:
            rows = [Entry(*row) for row in await tx.all(_REPLACED, **of_scope(scope), ids=sought)]
        else:
            rows = []
        # An entry that is known already would lead round in a circle.
        new = [entry for entry in rows if entry.entry_id not in leads_to]
        for entry in new:
            leads_to[entry.entry_id] = leads_to[str(entry.superseded_by)]
            found[leads_to[entry.entry_id]].append(entry)
        sought = [entry.entry_id for entry in new]
    return found


async def find_standing(tx: Tx, scope: Scope, entry_id: str) -> Entry | None:
    """The entry itself, if it can be seen, else the first of its successors that can; None without one."""
    seen: set[str] = set()
    # A chain of successors that leads back to itself must not be followed for ever.
    while entry_id not in seen and len(seen) < _MOST_STEPS:
        seen.add(entry_id)
        standing = (await read_seen(tx, scope, [entry_id])).get(entry_id)
        if standing is not None:
            return standing
        successor = await tx.scalar(_SUCCESSOR, **of_scope(scope), of_entry=entry_id)
        if successor is None:
            return None
        entry_id = str(successor)
    return None


MOST_PINNED = 100
"""At most this many pinned entries are read, those pinned last."""
_MOST_WRONG = 500
"""A new entry is compared with this many of the entries marked as wrong, those marked last."""

_this = and_(in_scope(entries), entries.c.entry_id == bindparam("of_entry"))
_ONE = select(*COLUMNS).where(_this, IS_SUPPORTED, or_(entries.c.status == "active", entries.c.status == "wrong"))
_PIN = update(entries).where(_this, entries.c.status == "active").values(pinned_at=bindparam("at"))
_PINNED = (
    select(*COLUMNS)
    .where(in_scope(entries), IS_SEEN, entries.c.pinned_at.is_not(None))
    .order_by(entries.c.pinned_at.desc(), entries.c.entry_id)
    .limit(MOST_PINNED)
)
_was = entries.alias()
_INHERIT = (
    update(entries)
    .where(_this, entries.c.pinned_at.is_(None))
    .where(
        exists()
        .where(
            *(_was.c[name] == entries.c[name] for name in SCOPE),
            _was.c.pinned_at.is_not(None),
            any_of(_was.c.entry_id, "ids"),
        )
        .correlate(entries)
    )
    .values(pinned_at=bindparam("at"))
)
_WRONG = (
    update(entries)
    .where(_this, entries.c.status == "active")
    .values(status="wrong", seen_at=bindparam("now"), pinned_at=None)
)
_ACCEPT = update(entries).where(_this, entries.c.trust == "shared").values(trust="user", origin="caller")
# When it was marked took the place of when it was seen.
_RIGHT = update(entries).where(_this, entries.c.status == "wrong").values(status="active", seen_at=entries.c.created_at)
_LISTED_WRONG = (
    select(*COLUMNS)
    .where(in_scope(entries), entries.c.status == "wrong", IS_SUPPORTED)
    .order_by(entries.c.seen_at.desc(), entries.c.entry_id)
    .limit(_MOST_WRONG)
)


async def read_markable(tx: Tx, scope: Scope, entry_id: str) -> Entry | None:
    """The entry, if it can be seen or is marked as wrong."""
    row = await tx.one(_ONE, **of_scope(scope), of_entry=entry_id)
    if row is None:
        return None
    return Entry(*row)


async def pin(tx: Tx, scope: Scope, entry_id: str, *, at: int | None) -> None:
    """Pin an active entry, or with None, let go of it."""
    await tx.run(_PIN, **of_scope(scope), of_entry=entry_id, at=at)


async def accept(tx: Tx, scope: Scope, entry_id: str) -> bool:
    """Trust an entry that a shared file brought as the user's own word; whether that changed it."""
    return await tx.run(_ACCEPT, **of_scope(scope), of_entry=entry_id) > 0


async def read_pinned(tx: Tx, scope: Scope) -> list[Entry]:
    """The entries that are pinned and can be seen, those pinned last first."""
    return [Entry(*row) for row in await tx.all(_PINNED, **of_scope(scope))]


async def inherit_pin(tx: Tx, scope: Scope, entry_id: str, ids: Collection[str], *, now: int) -> bool:
    """Pin an entry if one of those whose place it took is pinned; whether that made it so."""
    if not ids:
        return False
    return await tx.run(_INHERIT, **of_scope(scope), of_entry=entry_id, ids=list(ids), at=now) > 0


async def mark_wrong(tx: Tx, scope: Scope, entry_id: str, *, now: int) -> None:
    """Have an active entry be seen no more, since what it says is not true; it is pinned no more."""
    await tx.run(_WRONG, **of_scope(scope), of_entry=entry_id, now=now)
    await hide_unseen(tx, scope, [entry_id])


async def unmark_wrong(tx: Tx, scope: Scope, entry_id: str, *, search_text: SearchText) -> None:
    """Have an entry that was marked as wrong be seen again."""
    await tx.run(_RIGHT, **of_scope(scope), of_entry=entry_id)
    await show_seen(tx, scope, [entry_id], search_text)


async def list_wrong(tx: Tx, scope: Scope) -> list[Entry]:
    """The entries that are marked as wrong, those marked last first."""
    return [Entry(*row) for row in await tx.all(_LISTED_WRONG, **of_scope(scope))]


_named = and_(in_scope(entries), any_of(entries.c.entry_id, "ids"))
_CONTRADICT = update(entries).where(_named, entries.c.status == "active").values(superseded_by=bindparam("new_by"))


async def mark_contradicted(tx: Tx, scope: Scope, ids: Collection[str], by: str) -> None:
    """Note of active entries that a newer one says otherwise. Both stay until one supersedes the other."""
    if ids:
        await tx.run(_CONTRADICT, **of_scope(scope), ids=list(ids), new_by=by)


_CONTRADICTED = select(entries.c.entry_id, entries.c.superseded_by).where(
    in_scope(entries),
    entries.c.status == "active",
    entries.c.superseded_by.is_not(None),
    or_(any_of(entries.c.entry_id, "ids"), any_of(entries.c.superseded_by, "ids")),
)


async def find_contradicted(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, str]:
    """By the older one's id, the newer entry that says otherwise, where one of the two is among these ids."""
    if ids:
        rows = await tx.all(_CONTRADICTED, **of_scope(scope), ids=list(ids))
    else:
        rows = ()
    return {str(older): str(newer) for older, newer in rows}


_NAMED_ENTRIES = and_(in_scope(entries), any_of(entries.c.entry_id, "ids"))
_RESTORE = (
    update(entries)
    .where(_NAMED_ENTRIES, entries.c.status == "dropped")
    # When it was dropped took the place of when it was seen.
    .values(status="active", superseded_by=None, seen_at=entries.c.created_at)
)
_RESTORE_SUPERSEDED = (
    update(entries)
    .where(_NAMED_ENTRIES, entries.c.status == "superseded", entries.c.superseded_by == bindparam("by"))
    .values(status="active", superseded_by=None, seen_at=entries.c.created_at)
)
_STANDING = select(entries.c.entry_id, entries.c.status, entries.c.superseded_by).where(_NAMED_ENTRIES)


# Written out, as the index on such rows has it.
_DROPPED = (
    select(entries.c.entry_id)
    .where(in_scope(entries), text("status = 'dropped'"), entries.c.seen_at < bindparam("before"))
    .order_by(entries.c.seen_at)
    .limit(bindparam("most"))
    # Rows that another process is erasing are skipped, not waited for.
    .with_for_update(skip_locked=True)
)


async def restore_dropped(tx: Tx, scope: Scope, ids: Collection[str], *, search_text: SearchText) -> list[str]:
    """Let entries that were dropped be seen again, as far as something they rest on is there; the ids of those that are
    seen now."""
    if not ids:
        return []
    await tx.run(_RESTORE, **of_scope(scope), ids=list(ids))
    await show_seen(tx, scope, ids, search_text)
    return sorted(await read_seen(tx, scope, ids))


async def restore_superseded(
    tx: Tx, scope: Scope, ids: Collection[str], by: str, *, search_text: SearchText
) -> list[str]:
    """Let entries whose place another took stand for themselves again, as far as something they rest on is there; the
    ids of those that are seen now."""
    await tx.run(_RESTORE_SUPERSEDED, **of_scope(scope), ids=list(ids), by=by)
    await show_seen(tx, scope, ids, search_text)
    return sorted(await read_seen(tx, scope, ids))


async def read_standing(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, tuple[Status, str | None]]:
    """By each of these entries that is stored, its status and the entry that took its place, if one did."""
    if ids:
        rows = await tx.all(_STANDING, **of_scope(scope), ids=list(ids))
    else:
        rows = ()
    return {entry_id: (status, by) for entry_id, status, by in rows}


async def erase_dropped(tx: Tx, scope: Scope, *, dropped_before: int, most: int = 100) -> int:
    """Erase at most ``most`` entries that were dropped before the time (milliseconds since 1970); counts them."""
    ids = await tx.scalars(_DROPPED, **of_scope(scope), before=dropped_before, most=most)
    if ids:
        return await erase(tx, scope, ids)
    return 0
