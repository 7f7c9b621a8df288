"""What an erasure takes: every table with rows of a resource, and how many rows there are.

The list is made from the tables themselves, so that a new one is in it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, exists, func, or_, select

from layerlore.storage.core.damaged_values import value_of
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.scopes import KINDS, in_scope, note_places, of_scope, scope_token
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import (
    SCOPE,
    THREAD,
    document_sources,
    entries,
    entry_sources,
    idempotency,
    metadata,
    runs,
    search_rows,
    search_vectors,
    threads,
    usage,
    user_profiles,
)
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries as kept
from layerlore.storage.derived.version_sources import ERASED

Counts = Counter[str]
"""Rows by table."""

OWNED: tuple[Table, ...] = tuple(
    table for table in reversed(metadata.sorted_tables) if all(name in table.c for name in SCOPE)
)
"""Every table with rows of a resource, what hangs on others first. Those of the index have no place in this order."""


def _hangs_on_thread(table: Table) -> bool:
    """Whether its rows are named within their thread, and go with it."""
    key = tuple(column.name for column in table.primary_key)
    by = [tuple(each.column_keys) for each in table.foreign_key_constraints if each.referred_table is threads]
    return key[: len(THREAD)] == THREAD and THREAD in by


WITH_THREAD = tuple(table for table in OWNED if _hangs_on_thread(table))
"""What nobody sees any more once its thread is hidden."""
AT_ONCE = tuple(table for table in OWNED if table not in (*WITH_THREAD, threads, entries))
"""What else a resource has: seen without its thread, or in the way of what is written next under the same name."""
OF_THREAD = tuple(table for table in OWNED if "thread_uid" in table.c and table not in (threads, usage))
"""What a thread takes along. What was spent in it stays spent: numbers, and names of models."""


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
        while (agent := await tx.scalar(_FIRST_AGENT[table], tenant_id=tenant.tenant_id, after=after)) is not None:
            after = agent
            scope = Scope(tenant.tenant_id, after, resource_id)
            if after not in found and await tx.one(_ANY[table], **of_scope(scope)) is not None:
                found.add(after)
    return sorted(found)


def _count(table: Table, *where: ColumnElement[bool]) -> Select[Any]:
    return select(func.count()).select_from(table).where(*where)


_ALL = {table: _count(table, in_scope(table)) for table in (*OWNED, search_rows)}
_ALL_VECTORS = _count(search_vectors, any_of(search_vectors.c.scope_token, "tokens"))


async def count(tx: Tx, scope: Scope) -> Counts:
    """All that is kept of a scope."""
    counts: Counts = Counter()
    for table, statement in _ALL.items():
        counts[table.name] = await _number(tx, statement, **of_scope(scope))
    tokens = [scope_token(scope, kind) for kind in KINDS]
    counts["search_vectors"] = await _number(tx, _ALL_VECTORS, tokens=tokens)
    return +counts


async def _number(tx: Tx, statement: Select[Any], **values: Any) -> int:
    return int(await tx.scalar(statement, **values) or 0)


_NAMED = (
    select(threads.c.thread_uid)
    .where(in_scope(threads), threads.c.thread_id == bindparam("thread_id"))
    .order_by(threads.c.thread_uid)
)


async def find_named(tx: Tx, scope: Scope, thread_id: str) -> list[str]:
    """The uids of the threads of that name, live or deleted."""
    return await tx.scalars(_NAMED, **of_scope(scope), thread_id=thread_id)


_of_entry = and_(*(entry_sources.c[name] == entries.c[name] for name in (*SCOPE, "entry_id")))
_from_these = any_of(entry_sources.c.thread_uid, "uids")
_ONLY_FROM = select(entries.c.entry_id).where(
    in_scope(entries),
    ~kept.IS_OWN_WORD,
    exists().where(_of_entry, _from_these).correlate(entries),
    ~exists().where(_of_entry, ~_from_these).correlate(entries),
)
_OF_THREADS = {table: _count(table, of_threads(table)) for table in OF_THREAD}
_ROWS = _count(search_rows, in_scope(search_rows), any_of(search_rows.c.thread_uid, "uids"))
_VECTORS = (
    select(func.count())
    .select_from(search_vectors.join(search_rows, search_rows.c.row_id == search_vectors.c.row_id))
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
    """What goes with the threads of a name, ``uids``: their rows, the entries that rest on nothing else, the versions of
    the profile that were made from them, and the answers kept for repeated requests that name them."""
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
_NAMING = {"thread_id", "thread_uid", "run_id"}
_ANSWERS = select(idempotency.c.key, idempotency.c.answer).where(in_scope(idempotency))


async def answers_naming(tx: Tx, scope: Scope, thread_id: str, uids: Collection[str]) -> list[str]:
    """The keys of the kept answers (of the last day) that name the threads, or a run of theirs."""
    if not uids:
        return []
    run_ids = await tx.scalars(_RUNS, **of_scope(scope), uids=list(uids))
    names = {thread_id, *uids, *run_ids}
    answers = await tx.all(_ANSWERS, **of_scope(scope))
    return [key for key, answer in answers if answer and not names.isdisjoint(_named_in(value_of(answer)))]


def _named_in(value: Any, field: str = "") -> Iterator[str]:
    """The threads and runs that an answer names."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _named_in(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _named_in(each, field)
    elif isinstance(value, str) and field in _NAMING:
        yield value
