"""What becomes of entries when what they rest on is replaced or erased, and when they were dropped long ago."""

from collections.abc import Collection

from sqlalchemy import and_, bindparam, delete, exists, select, text, update

from layerlore.storage import entries as kept
from layerlore.storage import installation, resources
from layerlore.storage.records import Scope
from layerlore.storage.scoping import in_scope, in_thread, of_scope, of_thread
from layerlore.storage.statements import any_of
from layerlore.storage.tables import SCOPE, entries, entry_sources
from layerlore.storage.transaction import Tx

_sources = and_(in_thread(entry_sources), any_of(entry_sources.c.message_seq, "seqs"))
_FOLLOW = update(entry_sources).where(_sources).values(revision=entry_sources.c.revision + 1)
_FORGET = delete(entry_sources).where(_sources)
_without_source = ~exists().where(
    *(entry_sources.c[name] == entries.c[name] for name in (*SCOPE, "entry_id"))
).correlate(entries)
_ERASE_UNSOURCED = delete(entries).where(in_scope(entries), entries.c.origin != "caller", _without_source)

# Written out, as the index on such rows has it.
_DROPPED = (
    select(entries.c.entry_id)
    .where(in_scope(entries), text("status = 'dropped'"), entries.c.seen_at < bindparam("before"))
    .order_by(entries.c.seen_at)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)


async def replaced(
    tx: Tx, scope: Scope, thread_uid: str, *, same_text: Collection[int], other_text: Collection[int]
) -> None:
    """After messages were replaced: a source follows one that says the same, and is gone with one that does not, and
    with its last source an entry is gone for good."""
    of = of_thread(scope, thread_uid)
    if same_text:
        await tx.run(_FOLLOW, **of, seqs=list(same_text))
    if other_text and (ids := await kept.sourced_from(tx, scope, thread_uid, other_text)):
        await tx.run(_FORGET, **of, seqs=list(other_text))
        await sources_gone(tx, scope, ids, erased=True)


async def sources_gone(tx: Tx, scope: Scope, ids: Collection[str], *, erased: bool) -> None:
    """After sources of these entries were hidden, or (``erased``) removed for good: what nobody sees any more is out of
    the index, and what has no source left is erased."""
    if not ids:
        return
    await resources.hold(tx, scope)
    if erased:
        await erase_unsourced(tx, scope)
    await kept.hide_unseen(tx, scope, ids)


async def erase_unsourced(tx: Tx, scope: Scope) -> int:
    """After messages were erased for good: the entries that rested on nothing else are, too; counts them."""
    erased = await tx.run(_ERASE_UNSOURCED, **of_scope(scope))
    if erased:
        await installation.owe_rewrite(tx)
    return erased


async def erase_dropped(tx: Tx, scope: Scope, *, dropped_before: int, most: int = 100) -> int:
    """Erase at most ``most`` entries that were dropped before the time (milliseconds since 1970); counts them."""
    rows = await tx.all(_DROPPED, **of_scope(scope), before=dropped_before, most=most)
    return await kept.erase(tx, scope, [row[0] for row in rows]) if rows else 0
