"""Lists of entries, for people who look through what is kept: those that can be seen, with those whose place they took.

An entry that another took the place of is shown with that one alone: who forgets an entry does not find what stood
before it.
"""

from collections.abc import Collection
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, or_, select, tuple_

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_scope, of_scope
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import entries
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.entries import COLUMNS, IS_SEEN, IS_TOLD, Entry, read_seen

_MOST_STEPS = 50
"""So many times an entry took the place of one that had taken another's, at most, as far as it is told."""

_PLACE = (entries.c.created_at, entries.c.entry_id)
_BEFORE = tuple_(*_PLACE) < tuple_(
    bindparam("before_at", type_=entries.c.created_at.type), bindparam("before_id", type_=entries.c.entry_id.type)
)
_is_replaced = (in_scope(entries), entries.c.status == "superseded", IS_TOLD)
_REPLACED = (
    select(*COLUMNS)
    .where(*_is_replaced, any_of(entries.c.superseded_by, "ids"))
    .order_by(entries.c.seen_at.desc(), entries.c.entry_id)
)
_NAMED = select(*COLUMNS).where(
    in_scope(entries),
    any_of(entries.c.entry_id, "ids"),
    or_(entries.c.status == "active", entries.c.status == "superseded"),
    IS_TOLD,
)
_SUCCESSOR = select(entries.c.superseded_by).where(*_is_replaced, entries.c.entry_id == bindparam("of_entry"))


_LOOKED_AT = 500
"""Among so many of the entries that were kept last a user's preferences are looked for, so that it costs the same in any scope."""
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
    query = query.where(_BEFORE) if continued else query
    return query.order_by(*(column.desc() for column in _PLACE))


async def read_page(tx: Tx, scope: Scope, *, before: tuple[int, str] | None, limit: int) -> list[Entry]:
    """The entries that can be seen, those kept last first; ``before``: when the last one of the page before was made, and
    its id."""
    behind = dict(zip(("before_at", "before_id"), before, strict=True)) if before else {}
    return [
        Entry(*row) for row in await tx.all(_page(before is not None), **of_scope(scope), page_size=limit, **behind)
    ]


async def read_named(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, Entry]:
    """Of these entries those that can be seen, or could if another had not taken their place, by id."""
    rows = await tx.all(_NAMED, **of_scope(scope), ids=list(ids)) if ids else ()
    return {entry.entry_id: entry for entry in (Entry(*row) for row in rows)}


async def read_preferences(tx: Tx, scope: Scope, *, most: int) -> list[Entry]:
    """What the user himself said that he prefers, the newest first, among the entries that were kept last."""
    return [Entry(*row) for row in await tx.all(_PREFERENCES, **of_scope(scope), most=most)] if most else []


async def read_replaced(tx: Tx, scope: Scope, ids: Collection[str]) -> dict[str, list[Entry]]:
    """By each of these entries those whose place it took, and those whose place these had taken, the newest first."""
    found: dict[str, list[Entry]] = {entry_id: [] for entry_id in ids}
    leads_to = {entry_id: entry_id for entry_id in ids}
    sought = list(ids)
    for _ in range(_MOST_STEPS):
        rows = [Entry(*row) for row in await tx.all(_REPLACED, **of_scope(scope), ids=sought)] if sought else []
        new = [entry for entry in rows if entry.entry_id not in leads_to]
        for entry in new:
            leads_to[entry.entry_id] = leads_to[str(entry.superseded_by)]
            found[leads_to[entry.entry_id]].append(entry)
        sought = [entry.entry_id for entry in new]
    return found


async def find_standing(tx: Tx, scope: Scope, entry_id: str) -> Entry | None:
    """The entry itself, if it can be seen, else the one that stands in its place in the end; None: there is none."""
    seen: set[str] = set()
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
