"""Entries that were dropped, or whose place others took: seen again, or erased after their time. Whoever lets them be seen
again holds the resource."""

from collections.abc import Collection

from sqlalchemy import and_, bindparam, select, text, update

from layerlore.storage.core.records import Scope, SearchText
from layerlore.storage.core.scopes import in_scope, of_scope
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import entries
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.entries import Status, erase, read_seen, show_seen

_NAMED = and_(in_scope(entries), any_of(entries.c.entry_id, "ids"))
_RESTORE = (
    update(entries)
    .where(_NAMED, entries.c.status == "dropped")
    # When it was dropped took the place of when it was seen.
    .values(status="active", superseded_by=None, seen_at=entries.c.created_at)
)
_RESTORE_SUPERSEDED = (
    update(entries)
    .where(_NAMED, entries.c.status == "superseded", entries.c.superseded_by == bindparam("by"))
    .values(status="active", superseded_by=None, seen_at=entries.c.created_at)
)
_STANDING = select(entries.c.entry_id, entries.c.status, entries.c.superseded_by).where(_NAMED)


# Written out, as the index on such rows has it.
_DROPPED = (
    select(entries.c.entry_id)
    .where(in_scope(entries), text("status = 'dropped'"), entries.c.seen_at < bindparam("before"))
    .order_by(entries.c.seen_at)
    .limit(bindparam("most"))
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
    """By each of these entries that is kept, its status and the entry that took its place, if one did."""
    rows = await tx.all(_STANDING, **of_scope(scope), ids=list(ids)) if ids else ()
    return {entry_id: (status, by) for entry_id, status, by in rows}


async def erase_dropped(tx: Tx, scope: Scope, *, dropped_before: int, most: int = 100) -> int:
    """Erase at most ``most`` entries that were dropped before the time (milliseconds since 1970); counts them."""
    ids = await tx.scalars(_DROPPED, **of_scope(scope), before=dropped_before, most=most)
    return await erase(tx, scope, ids) if ids else 0
