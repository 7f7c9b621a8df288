"""Erasing for good what is kept of a resource, or of its threads of one name.

It is hidden first, all of it in one transaction, and marked: threads with a delete at time 0, entries as dropped at
time 0. From then on nobody sees it, no running job can store what it made of it, and it cannot be restored. The marked
rows are then erased a portion at a time, by who asked for it or by whoever comes after a crash. What is written
meanwhile is new, and stays.
"""

from dataclasses import dataclass

from sqlalchemy import and_, bindparam, delete, insert, literal_column, select, text, tuple_, union, update

from layerlore.storage.audit import stored_bytes
from layerlore.storage.core import installation, resource_lock
from layerlore.storage.core.all_tenants import Look
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.scopes import PROFILE_PLACE, in_scope, note_places, of_scope, of_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import SCOPE, THREAD, deletions, idempotency, search_rows, search_vectors
from layerlore.storage.core.tables import entries as entries_table
from layerlore.storage.core.tables import jobs as jobs_table
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import derivations, entries, version_sources
from layerlore.storage.index import lexical
from layerlore.storage.jobs import jobs
from layerlore.storage.jobs.jobs import Kind
from layerlore.storage.removal.deletions import ERASE_THREAD
from layerlore.storage.removal.erasable_rows import (
    AT_ONCE,
    OF_THREAD,
    Counts,
    answers_naming,
    count,
    count_threads,
    find_named,
    of_threads,
)
from layerlore.storage.threads import threads

PORTION = 300
"""Rows of one transaction: others wait for some 10 ms on SQLite."""

_LOCK_ALL = (
    select(threads_table.c.thread_uid)
    .where(in_scope(threads_table))
    .order_by(threads_table.c.thread_uid)
    .with_for_update()
)
_HIDE_ALL = update(threads_table).where(in_scope(threads_table)).values(deletion_uid=threads_table.c.thread_uid)
_HIDE_SOME = _HIDE_ALL.where(any_of(threads_table.c.thread_uid, "uids"))
_marks = select(
    *(threads_table.c[name] for name in THREAD),
    threads_table.c.thread_uid.label("deletion_uid"),
    literal_column("'thread'"),
    threads_table.c.message_count,
    literal_column("0"),
).where(in_scope(threads_table))
_columns = [*THREAD, "deletion_uid", "kind", "message_count", "deleted_at"]
_MARK_ALL = insert(deletions).from_select(_columns, _marks)
_MARK_SOME = insert(deletions).from_select(_columns, _marks.where(any_of(threads_table.c.thread_uid, "uids")))
# Under another hash, so that the same words remembered meanwhile make an entry of their own.
_MARK_ENTRIES = (
    update(entries_table)
    .where(in_scope(entries_table))
    .values(status="dropped", seen_at=0, content_hash=entries_table.c.entry_id)
)
_CLEAR = {table: delete(table).where(in_scope(table)) for table in AT_ONCE}
_CLEAR_OF = tuple(delete(table).where(of_threads(table)) for table in (deletions, jobs_table))
_FORGET_ANSWERS = delete(idempotency).where(in_scope(idempotency), any_of(idempotency.c.key, "keys"))


async def hide(tx: Tx, scope: Scope) -> Counts:
    """Hide and mark everything of a scope. Returns how many rows are erased, now or in portions."""
    await tx.all(_LOCK_ALL, **of_scope(scope))
    await resource_lock.lock(tx, scope)
    counts = await count(tx, scope)
    if not counts:
        return counts
    await tx.run(_HIDE_ALL, **of_scope(scope))
    # First, since who takes a job writes to others of them; who has taken one finds it gone, and stores nothing.
    await tx.run(_CLEAR[jobs_table], **of_scope(scope))
    for table in AT_ONCE:
        await tx.run(_CLEAR[table], **of_scope(scope))
    await tx.run(_MARK_ALL, **of_scope(scope))
    await tx.run(_MARK_ENTRIES, **of_scope(scope))
    await lexical.remove_thread(tx, scope, PROFILE_PLACE)
    await installation.owe_rewrite(tx)
    return counts


@dataclass(frozen=True, slots=True)
class HiddenThreads:
    """How many rows are erased, now or in portions, and what is without something that was made from the threads."""

    counts: Counts
    fell_back: frozenset[Kind] = frozenset()


async def hide_threads(tx: Tx, scope: Scope, thread_id: str, *, now: int) -> HiddenThreads:
    """Hide and mark the threads of that name, live or deleted. What was made from them falls back or goes with them, as
    when a thread is deleted. A caller refreshes the profile's notes."""
    live = await _lock_live(tx, scope, thread_id)
    uids = await find_named(tx, scope, thread_id)
    if not uids:
        return HiddenThreads(Counts())
    of = {**of_scope(scope), "uids": uids}
    stood = await derivations.standing(tx, scope, live, None) if live else None
    await resource_lock.hold(tx, scope)
    counts = await count_threads(tx, scope, thread_id, uids)
    sourced = {entry_id for uid in uids for entry_id in await entries.sourced_from(tx, scope, uid)}
    keys = await answers_naming(tx, scope, thread_id, uids)
    await tx.run(_FORGET_ANSWERS, **of_scope(scope), keys=keys)
    await tx.run(_HIDE_SOME, **of)
    for statement in _CLEAR_OF:
        await tx.run(statement, **of)
    await tx.run(_MARK_SOME, **of)
    for uid in uids:
        await version_sources.erase_of_thread(tx, scope, uid)
    await entries.drop_sources(tx, scope, sourced, erased=False)
    again = await derivations.fallen(tx, scope, live, stood) if live and stood else []
    await derivations.do_again(tx, scope, again, now=now)
    await jobs.fence_off(tx, scope, now=now)
    await installation.owe_rewrite(tx)
    return HiddenThreads(counts, frozenset(kind for _, kind, _ in again))


async def _lock_live(tx: Tx, scope: Scope, thread_id: str) -> Thread | None:
    try:
        return await threads.lock(tx, scope, thread_id)
    except NotFound:
        return None


_marked_thread = and_(deletions.c.deleted_at == 0, deletions.c.kind == "thread")
# Written out, as the index on such rows has it.
_marked_entry = and_(text("status = 'dropped'"), entries_table.c.seen_at == 0)
_MARKED_ENTRIES = (
    select(entries_table.c.entry_id).where(in_scope(entries_table), _marked_entry).limit(bindparam("most"))
)
_MARKED_THREADS = (
    select(deletions.c.thread_uid)
    .where(in_scope(deletions), _marked_thread)
    .order_by(deletions.c.thread_uid)
    .limit(bindparam("most"))
)
_INDEX_ROWS = (
    select(search_rows.c.row_id)
    .where(in_scope(search_rows), any_of(search_rows.c.thread_uid, "uids"))
    .limit(bindparam("most"))
)
_ERASE_INDEX = tuple(delete(table).where(any_of(table.c.row_id, "row_ids")) for table in (search_vectors, search_rows))
_ERASE_SOME = tuple(
    delete(table).where(
        tuple_(*table.primary_key).in_(select(*table.primary_key).where(of_threads(table)).limit(bindparam("most")))
    )
    for table in OF_THREAD
    if table is not deletions  # the mark, which goes with the thread's own row
)
_marked = union(
    select(*(deletions.c[name] for name in SCOPE)).where(_marked_thread),
    select(*(entries_table.c[name] for name in SCOPE)).where(_marked_entry),
).subquery()
_UNFINISHED = Look(
    "layerlore_scopes_being_erased",
    select(*(_marked.c[name] for name in SCOPE)),
    tuple((name, "text") for name in SCOPE),
)


async def purge(tx: Tx, scope: Scope, *, most: int = PORTION) -> int:
    """Erase about ``most`` rows, at most, of what is marked in a scope; counts them. 0: nothing is left."""
    ids = await tx.scalars(_MARKED_ENTRIES, **of_scope(scope), most=most // 2)
    if ids:
        return await entries.erase(tx, scope, ids)
    erased = 0
    for (uid,) in await tx.all(_MARKED_THREADS, **of_scope(scope), most=most):
        erased += await _purge_thread(tx, scope, uid, most - erased)
        if erased >= most:
            break
    if erased:
        await installation.owe_rewrite(tx)
    else:
        await stored_bytes.fold(tx, scope)
    return erased


async def _purge_thread(tx: Tx, scope: Scope, thread_uid: str, most: int) -> int:
    of = {**of_scope(scope), "uids": [thread_uid]}
    indexed = [thread_uid, *note_places(thread_uid)]
    row_ids = await tx.scalars(_INDEX_ROWS, **of_scope(scope), uids=indexed, most=most)
    if row_ids:
        for statement in _ERASE_INDEX:
            await tx.run(statement, row_ids=row_ids)
    erased = len(row_ids)
    for statement in _ERASE_SOME:
        if erased >= most:
            return erased
        erased += await tx.run(statement, **of, most=most - erased)
    if erased < most:
        erased += await tx.run(ERASE_THREAD, **of_thread(scope, thread_uid))
        await entries.erase_unsourced(tx, scope)
    return erased


async def unfinished(tx: Tx) -> list[Scope]:
    """The scopes of the whole installation in which anything is marked: whoever was erasing it came to an end."""
    return [Scope(*row) for row in await _UNFINISHED.rows(tx)]
