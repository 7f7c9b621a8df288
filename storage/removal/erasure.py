"""Erasing for good what is stored of a resource, or of its threads of one name.

It is hidden first, all of it in one transaction, and marked: threads with a delete at time 0, entries as dropped at
time 0. From then on it is invisible, no running job can store what it made of it, and it cannot be restored. The marked
rows are then erased a portion at a time, by the caller that requested it or, after a crash, by the next one. Rows
written meanwhile are new, and stay.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    tuple_,
    union,
    update,
)

from layerlore.storage.audit import stored_bytes
from layerlore.storage.core import installation, scopes
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.installation import Look
from layerlore.storage.core.json_text import value_of
from layerlore.storage.core.records import Scope, Tenant, Thread
from layerlore.storage.core.scopes import (
    KINDS,
    PROFILE_PLACE,
    in_scope,
    named_in_scope,
    note_places,
    of_scope,
    of_thread,
    scope_token,
    vector_of,
)
from layerlore.storage.core.statements import VectorOf, any_of
from layerlore.storage.core.tables import (
    SCOPE,
    THREAD,
    deletions,
    document_sources,
    entry_sources,
    idempotency,
    metadata,
    runs,
    search_rows,
    search_vectors,
    usage,
    user_profiles,
)
from layerlore.storage.core.tables import entries as entries_table
from layerlore.storage.core.tables import jobs as jobs_table
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import derivations, entries, working_memory
from layerlore.storage.derived import entries as kept
from layerlore.storage.derived.working_memory import ERASED
from layerlore.storage.index import lexical
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Kind
from layerlore.storage.removal.deletions import ERASE_THREAD
from layerlore.storage.threads import threads

Counts = Counter[str]
"""Rows by table."""

OWNED: tuple[Table, ...] = tuple(
    table for table in reversed(metadata.sorted_tables) if all(name in table.c for name in SCOPE)
)
"""Every table with rows of a resource, what hangs on others first. Those of the index have no place in this order."""


def _hangs_on_thread(table: Table) -> bool:
    """Whether the table's rows are named within their thread, and go with it."""
    key = tuple(column.name for column in table.primary_key)
    by = [tuple(each.column_keys) for each in table.foreign_key_constraints if each.referred_table is threads_table]
    return key[: len(THREAD)] == THREAD and THREAD in by


WITH_THREAD = tuple(table for table in OWNED if _hangs_on_thread(table))
"""Tables whose rows are invisible once their thread is hidden."""
AT_ONCE = tuple(table for table in OWNED if table not in (*WITH_THREAD, threads_table, entries_table))
"""The other tables of a resource: their rows are visible without a thread, or would conflict with new rows of the same
name."""
OF_THREAD = tuple(table for table in OWNED if "thread_uid" in table.c and table not in (threads_table, usage))
"""Tables whose rows go with a thread. Its spending stays: numbers, and names of models."""


def of_threads(table: Table) -> ColumnElement[bool]:
    """Rows of the threads ``uids`` of a scope, or made from them."""
    own: ColumnElement[bool] = any_of(table.c.thread_uid, "uids")
    if table is document_sources:
        own = or_(own, any_of(table.c.source_thread_uid, "uids"))
    return and_(in_scope(table), own)


_FIRST_AGENT = {
    table: select(table.c.agent_id)
    .where(table.c.tenant_id == bindparam("tenant_id"), table.c.agent_id > bindparam("after"))
    .order_by(table.c.agent_id)
    .limit(1)
    for table in (*OWNED, search_rows)
}
_ANY = {table: select(table.c.agent_id).where(in_scope(table)).limit(1) for table in (*OWNED, search_rows)}


async def agents_of(tx: Tx, tenant: Tenant, resource_id: str) -> list[str]:
    """The agents of a tenant that keep anything of a resource, in order."""
    found: set[str] = set()
    for table in (*OWNED, search_rows):
        after = ""
        # A jump from agent to agent through the index, however many rows each has.
        while (agent := await tx.scalar(_FIRST_AGENT[table], tenant_id=tenant.tenant_id, after=after)) is not None:
            after = agent
            scope = Scope(tenant.tenant_id, after, resource_id)
            if after not in found and await tx.one(_ANY[table], **of_scope(scope)) is not None:
                found.add(after)
    return sorted(found)


def _count(table: Table, *where: ColumnElement[bool]) -> Select[Any]:
    return select(func.count()).select_from(table).where(*where)


_ALL = {table: _count(table, in_scope(table)) for table in (*OWNED, search_rows)}
_of_tenant = VectorOf(search_vectors.c.tenant_id, bindparam("tenant_id"))
_ALL_VECTORS = _count(search_vectors, _of_tenant, any_of(search_vectors.c.scope_token, "tokens"))


async def count(tx: Tx, scope: Scope) -> Counts:
    """All that is stored of a scope."""
    counts: Counts = Counter()
    for table, statement in _ALL.items():
        counts[table.name] = await _number(tx, statement, **of_scope(scope))
    tokens = [scope_token(scope, kind) for kind in KINDS]
    counts["search_vectors"] = await _number(tx, _ALL_VECTORS, tenant_id=scope.tenant_id, tokens=tokens)
    # The + leaves out the tables without rows.
    return +counts


async def _number(tx: Tx, statement: Select[Any], **values: Any) -> int:
    return int(await tx.scalar(statement, **values) or 0)


_NAMED = (
    select(threads_table.c.thread_uid)
    .where(in_scope(threads_table), threads_table.c.thread_id == bindparam("thread_id"))
    .order_by(threads_table.c.thread_uid)
)


async def find_named(tx: Tx, scope: Scope, thread_id: str) -> list[str]:
    """The uids of the threads of that name, live or deleted."""
    return await tx.scalars(_NAMED, **of_scope(scope), thread_id=thread_id)


_of_entry = and_(*(entry_sources.c[name] == entries_table.c[name] for name in (*SCOPE, "entry_id")))
_from_these = any_of(entry_sources.c.thread_uid, "uids")
_ONLY_FROM = select(entries_table.c.entry_id).where(
    in_scope(entries_table),
    ~kept.IS_OWN_WORD,
    exists().where(_of_entry, _from_these).correlate(entries_table),
    ~exists().where(_of_entry, ~_from_these).correlate(entries_table),
)
_OF_THREADS = {table: _count(table, of_threads(table)) for table in OF_THREAD}
_ROWS = _count(search_rows, in_scope(search_rows), any_of(search_rows.c.thread_uid, "uids"))
_VECTORS = (
    select(func.count())
    .select_from(search_vectors.join(search_rows, vector_of(search_rows)))
    .where(in_scope(search_rows), any_of(search_rows.c.thread_uid, "uids"))
)
_PROFILES = _count(
    user_profiles,
    in_scope(user_profiles),
    user_profiles.c.change != ERASED,
    exists()
    .where(
        *(document_sources.c[name] == user_profiles.c[name] for name in SCOPE),
        document_sources.c.thread_uid == "",
        document_sources.c.version == user_profiles.c.version,
        any_of(document_sources.c.source_thread_uid, "uids"),
    )
    .correlate(user_profiles),
)


async def count_threads(tx: Tx, scope: Scope, thread_id: str, uids: Sequence[str]) -> Counts:
    """The rows that go with the threads of a name, ``uids``: their rows, the entries that rest on nothing else, the
    versions of the profile that were made from them, and the answers kept for repeated requests that name them."""
    of = {**of_scope(scope), "uids": list(uids)}
    counts: Counts = Counter(threads=len(uids))
    for table, statement in _OF_THREADS.items():
        counts[table.name] = await _number(tx, statement, **of)
    doomed = await tx.scalars(_ONLY_FROM, **of)
    of_notes = [place for uid in uids for place in note_places(uid)]
    indexed = {**of, "uids": [*uids, *of_notes, *map(kept.place_of, doomed)]}
    counts["entries"] = len(doomed)
    counts["search_rows"] = await _number(tx, _ROWS, **indexed)
    counts["search_vectors"] = await _number(tx, _VECTORS, **indexed)
    counts["user_profiles"] = await _number(tx, _PROFILES, **of)
    counts["idempotency"] = len(await answers_naming(tx, scope, thread_id, uids))
    return +counts


_RUNS = select(runs.c.run_id).where(of_threads(runs))
_ANSWERS = select(idempotency.c.key, idempotency.c.answer).where(in_scope(idempotency))


async def answers_naming(tx: Tx, scope: Scope, thread_id: str, uids: Collection[str]) -> list[str]:
    """The keys of the kept answers (of the last day) that name the threads, or a run of theirs."""
    if not uids:
        return []
    run_ids = await tx.scalars(_RUNS, **of_scope(scope), uids=list(uids))
    names = {thread_id, *uids, *run_ids}
    answers = await tx.all(_ANSWERS, **of_scope(scope))
    # An empty answer is the claim of a request that is still at work.
    return [key for key, answer in answers if answer and not names.isdisjoint(_named_in(value_of(answer)))]


def _named_in(value: Any, field: str = "") -> Iterator[str]:
    """The threads and runs that an answer names."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _named_in(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _named_in(each, field)
    elif isinstance(value, str) and field in {"thread_id", "thread_uid", "run_id"}:
        yield value


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
    # At time 0 a delete can neither be undone nor expire.
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
    """Hide and mark everything of a scope. Returns how many rows will be erased, now or in portions."""
    # All threads first and in one order, then the resource, as every transaction does.
    await tx.all(_LOCK_ALL, **of_scope(scope))
    await scopes.lock(tx, scope)
    counts = await count(tx, scope)
    if not counts:
        return counts
    await tx.run(_HIDE_ALL, **of_scope(scope))
    # Jobs go first: a claim of one writes to others, and a worker that has one finds it gone and stores nothing.
    await tx.run(_CLEAR[jobs_table], **of_scope(scope))
    for table in AT_ONCE:
        await tx.run(_CLEAR[table], **of_scope(scope))
    await tx.run(_MARK_ALL, **of_scope(scope))
    await tx.run(_MARK_ENTRIES, **of_scope(scope))
    # The profile's notes hang on no thread that would take them along.
    await lexical.remove_thread(tx, scope, PROFILE_PLACE)
    await installation.owe_rewrite(tx)
    return counts


@dataclass(frozen=True, slots=True)
class HiddenThreads:
    """How many rows are erased, now or in portions, and what is without something that was made from the threads."""

    counts: Counts
    fell_back: frozenset[Kind] = frozenset()


async def hide_threads(tx: Tx, scope: Scope, thread_id: str, *, now: int) -> HiddenThreads:
    """Hide and mark the threads of that name, live or deleted. Derived rows fall back or go with them, as when a
    thread is deleted. A caller refreshes the profile's notes."""
    live = await _lock_live(tx, scope, thread_id)
    uids = await find_named(tx, scope, thread_id)
    if not uids:
        return HiddenThreads(Counts())
    of = {**of_scope(scope), "uids": uids}
    if live:
        stood = await derivations.standing(tx, scope, live, None)
    else:
        stood = None
    await scopes.hold(tx, scope)
    counts = await count_threads(tx, scope, thread_id, uids)
    sourced = {entry_id for uid in uids for entry_id in await entries.sourced_from(tx, scope, uid)}
    keys = await answers_naming(tx, scope, thread_id, uids)
    await tx.run(_FORGET_ANSWERS, **of_scope(scope), keys=keys)
    await tx.run(_HIDE_SOME, **of)
    for statement in _CLEAR_OF:
        await tx.run(statement, **of)
    await tx.run(_MARK_SOME, **of)
    for uid in uids:
        await working_memory.erase_of_thread(tx, scope, uid)
    await entries.drop_sources(tx, scope, sourced, erased=False)
    if live and stood:
        again = await derivations.fallen(tx, scope, live, stood)
    else:
        again = []
    await derivations.do_again(tx, scope, again, now=now)
    await job_rows.fence_off(tx, scope, now=now)
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
_ERASE_INDEX = (
    delete(search_vectors).where(_of_tenant, any_of(search_vectors.c.row_id, "row_ids")),
    delete(search_rows).where(named_in_scope(search_rows), any_of(search_rows.c.row_id, "row_ids")),
)
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
    # Each entry also has rows in the index, hence half as many.
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
        # Nothing marked is left, so the counts can be brought into as few rows as there can be.
        await stored_bytes.fold(tx, scope)
    return erased


async def _purge_thread(tx: Tx, scope: Scope, thread_uid: str, most: int) -> int:
    of = {**of_scope(scope), "uids": [thread_uid]}
    indexed = [thread_uid, *note_places(thread_uid)]
    row_ids = await tx.scalars(_INDEX_ROWS, **of_scope(scope), uids=indexed, most=most)
    if row_ids:
        for statement in _ERASE_INDEX:
            await tx.run(statement, **of_scope(scope), row_ids=row_ids)
    erased = len(row_ids)
    for statement in _ERASE_SOME:
        if erased >= most:
            return erased
        erased += await tx.run(statement, **of, most=most - erased)
    # The thread's row goes last: its mark goes with it, and leads a later process to what is left.
    if erased < most:
        erased += await tx.run(ERASE_THREAD, **of_thread(scope, thread_uid))
        await entries.erase_unsourced(tx, scope)
    return erased


async def unfinished(tx: Tx) -> list[Scope]:
    """The scopes of the whole installation in which anything is marked: the earlier eraser has ended."""
    return [Scope(*row) for row in await _UNFINISHED.rows(tx)]
