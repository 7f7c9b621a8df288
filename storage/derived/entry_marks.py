"""What a person marks an entry with: pinned, so that it is told whatever is asked; or wrong, so that it is told no more and
is not kept again from anybody else's words. Whoever marks holds the resource."""

from collections.abc import Collection

from sqlalchemy import and_, bindparam, exists, or_, select, update

from layerlore.storage.core.records import Scope, SearchText
from layerlore.storage.core.scopes import in_scope, of_scope
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import SCOPE, entries
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.entries import COLUMNS, IS_SEEN, IS_TOLD, Entry, hide_unseen, show_seen

MOST_PINNED = 100
"""So many of the entries that were pinned last are told."""
_MOST_WRONG = 500
"""So many of the entries that were marked as wrong last are compared with what is to be kept."""

_this = and_(in_scope(entries), entries.c.entry_id == bindparam("of_entry"))
_ONE = select(*COLUMNS).where(_this, IS_TOLD, or_(entries.c.status == "active", entries.c.status == "wrong"))
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
    .where(in_scope(entries), entries.c.status == "wrong", IS_TOLD)
    .order_by(entries.c.seen_at.desc(), entries.c.entry_id)
    .limit(_MOST_WRONG)
)


async def read_markable(tx: Tx, scope: Scope, entry_id: str) -> Entry | None:
    """The entry, if it can be seen or is marked as wrong."""
    row = await tx.one(_ONE, **of_scope(scope), of_entry=entry_id)
    return None if row is None else Entry(*row)


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
    rows = await tx.all(_CONTRADICTED, **of_scope(scope), ids=list(ids)) if ids else ()
    return {str(older): str(newer) for older, newer in rows}
