"""Tokens and money spent: by thread, model and day, and by background work against its budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, delete, func, select

from layerlore.storage.core.records import DAY_MS, Scope, Tenant
from layerlore.storage.core.scopes import in_scope, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of, insert_or_update, refused
from layerlore.storage.core.tables import daily_usage, spending, tenant_spending, threads, usage
from layerlore.storage.core.tables.columns import SCOPE, THREAD
from layerlore.storage.core.transaction import Tx


@dataclass(frozen=True, slots=True)
class UsageSums:
    """The cost of a model's calls. Money is in nano-dollars, so that sums are exact; ``unpriced_calls`` are those whose
    price is not known, and count as free."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    unpriced_calls: int = 0

    def __add__(self, other: "UsageSums") -> "UsageSums":
        return UsageSums(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_nano_usd + other.cost_nano_usd,
            self.unpriced_calls + other.unpriced_calls,
        )


@dataclass(frozen=True, slots=True)
class UsageLine:
    """The cost of one model (empty: none was named) for one ``source``: "steps", or the kind of a job."""

    model: str
    source: str
    spent: UsageSums


@dataclass(frozen=True, slots=True)
class OfOwner:
    """A line of an operator's view. ``owner`` is a thread's id (None: erased or deleted), a resource or an agent."""

    owner: str | None
    line: UsageLine


_COUNTS = ("calls", "input_tokens", "output_tokens", "cost_nano_usd", "unpriced_calls")
_KEY = (*THREAD, "model", "source")
DAYS_KEPT = 400
"""How long the sums and counts of a day are kept."""


def _raised(table: Table) -> dict[str, ColumnElement[Any]]:
    return {name: table.c[name] + refused(table)[name] for name in _COUNTS}


_ADD = insert_or_update(
    usage,
    {column.name: bindparam(column.name) for column in usage.c},
    keys=_KEY,
    changes={**_raised(usage), "updated_at": refused(usage).updated_at},
)
_ADD_TO_DAY = insert_or_update(
    daily_usage,
    {column.name: bindparam(column.name) for column in daily_usage.c},
    keys=(*SCOPE, "day", "source"),
    changes=_raised(daily_usage),
)
_DROP_OLD_DAYS = delete(daily_usage).where(in_scope(daily_usage), daily_usage.c.day < bindparam("oldest"))
_BY_DAY = (
    select(daily_usage.c.day, *(func.sum(daily_usage.c[name]) for name in _COUNTS))
    .where(in_scope(daily_usage), daily_usage.c.day >= bindparam("since_day"))
    .group_by(daily_usage.c.day)
)


def _sums_by(*columns: ColumnElement[Any]) -> Select[Any]:
    """Sums for each combination of the columns, in their order; the columns come first."""
    query = select(*columns, *(func.sum(usage.c[name]) for name in _COUNTS))
    return query.group_by(*columns).order_by(*columns)


_by_model = (usage.c.model, usage.c.source)
_OF_THREADS = _sums_by(usage.c.thread_uid).where(in_scope(usage), any_of(usage.c.thread_uid, "thread_uids"))
_OF_RESOURCE = _sums_by(*_by_model).where(in_scope(usage))
_BY_THREAD = (
    _sums_by(threads.c.thread_id, usage.c.thread_uid, *_by_model)
    # An outer join: a thread that was erased still has a cost, but no name.
    .select_from(usage.outerjoin(threads, and_(same_thread(threads, usage), threads.c.deletion_uid.is_(None))))
    .where(in_scope(usage))
)
_of_tenant = usage.c.tenant_id == bindparam("tenant_id")
_BY_RESOURCE = _sums_by(usage.c.resource_id, *_by_model).where(_of_tenant, usage.c.agent_id == bindparam("agent_id"))
_BY_AGENT = _sums_by(usage.c.agent_id, *_by_model).where(_of_tenant)


def _spent(sums: Sequence[Any]) -> UsageSums:
    """Sums as integers, since Postgres gives decimals."""
    return UsageSums(*map(int, sums))


def _line(model: str, source: str, *sums: Any) -> UsageLine:
    return UsageLine(model, source, _spent(sums))


async def add(tx: Tx, scope: Scope, thread_uid: str, lines: Sequence[UsageLine], *, now: int) -> None:
    """Raise the sums of a thread (empty: of no thread) and of the day; days that are too long ago go."""
    if not lines:
        return
    sums: dict[tuple[str, str], UsageSums] = {}
    by_source: dict[str, UsageSums] = {}
    for line in lines:
        key = (line.model, line.source)
        sums[key] = sums.get(key, UsageSums()) + line.spent
        by_source[line.source] = by_source.get(line.source, UsageSums()) + line.spent
    rows = [
        {
            **of_thread(scope, thread_uid),
            "model": model,
            "source": source,
            **{name: getattr(spent, name) for name in _COUNTS},
            "updated_at": now,
        }
        for (model, source), spent in sorted(sums.items())  # in one order, so that no two writers wait for each other
    ]
    await tx.many(_ADD, rows)
    day = now // DAY_MS
    of_day = [
        {**of_scope(scope), "day": day, "source": source, **{name: getattr(spent, name) for name in _COUNTS}}
        for source, spent in sorted(by_source.items())
    ]
    await tx.many(_ADD_TO_DAY, of_day)
    # Old days go with the next write of their scope, so no job has to sweep this table.
    await tx.run(_DROP_OLD_DAYS, **of_scope(scope), oldest=day - DAYS_KEPT)


async def by_day(tx: Tx, scope: Scope, since_day: int) -> dict[int, UsageSums]:
    """The cost of each day (whole days since 1970, of UTC) with any cost."""
    rows = await tx.all(_BY_DAY, **of_scope(scope), since_day=since_day)
    return {int(day): _spent(sums) for day, *sums in rows}


async def of_threads(tx: Tx, scope: Scope, thread_uids: Sequence[str]) -> dict[str, UsageSums]:
    """The cost of each of the threads with any cost."""
    rows = await tx.all(_OF_THREADS, **of_scope(scope), thread_uids=list(thread_uids))
    return {thread_uid: _spent(sums) for thread_uid, *sums in rows}


async def of_resource(tx: Tx, scope: Scope) -> list[UsageLine]:
    """The cost in the scope, erased threads included, for each model and source."""
    return [_line(*row) for row in await tx.all(_OF_RESOURCE, **of_scope(scope))]


async def by_thread(tx: Tx, scope: Scope) -> list[OfOwner]:
    """The cost in the scope, for each thread, model and source. Deleted and erased threads have
    no name any more."""
    rows = await tx.all(_BY_THREAD, **of_scope(scope))
    return [OfOwner(thread_id, _line(*line)) for thread_id, _, *line in rows]


async def by_resource(tx: Tx, tenant: Tenant, agent_id: str) -> list[OfOwner]:
    """The cost of each resource of an agent: an operator's view, across scopes."""
    rows = await tx.all(_BY_RESOURCE, tenant_id=tenant.tenant_id, agent_id=agent_id)
    return [OfOwner(owner, _line(*line)) for owner, *line in rows]


async def by_agent(tx: Tx, tenant: Tenant) -> list[OfOwner]:
    """The cost of each agent of a tenant, all its resources together: an operator's view, across scopes."""
    rows = await tx.all(_BY_AGENT, tenant_id=tenant.tenant_id)
    return [OfOwner(owner, _line(*line)) for owner, *line in rows]


@dataclass(frozen=True, slots=True)
class OfDay:
    """Tokens, in and out together, and money in nano-dollars; calls whose price is unknown add no money."""

    tokens: int = 0
    cost_nano_usd: int = 0


_ADD_SPENDING = insert_or_update(
    spending,
    {column.name: bindparam(column.name) for column in spending.c},
    keys=("day",),
    changes={name: spending.c[name] + refused(spending)[name] for name in ("tokens", "cost_nano_usd")},
)
_OF_DAY = select(spending.c.tokens, spending.c.cost_nano_usd).where(spending.c.day == bindparam("day"))


_ADD_OF_TENANT = insert_or_update(
    tenant_spending,
    {column.name: bindparam(column.name) for column in tenant_spending.c},
    keys=("tenant_id", "day"),
    changes={"tokens": tenant_spending.c.tokens + refused(tenant_spending).tokens},
)
_OF_TENANT = select(tenant_spending.c.tokens).where(
    tenant_spending.c.tenant_id == bindparam("of_tenant"), tenant_spending.c.day == bindparam("of_day")
)


def day_of(now: int) -> str:
    """The UTC day of a time in milliseconds: YYYY-MM-DD."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%d")


def next_day(now: int) -> int:
    """When the next UTC day begins, in milliseconds."""
    return (now // DAY_MS + 1) * DAY_MS


async def add_spending(tx: Tx, spent: OfDay, *, now: int) -> None:
    """Raise the installation's sums of the day."""
    await tx.run(_ADD_SPENDING, day=day_of(now), tokens=spent.tokens, cost_nano_usd=spent.cost_nano_usd)


async def read_of_day(tx: Tx, day: str) -> OfDay:
    """The installation's cost on a day."""
    row = await tx.one(_OF_DAY, day=day)
    if row:
        return OfDay(*row)
    return OfDay()


async def add_of_tenant(tx: Tx, tenant: Tenant, tokens: int, *, now: int) -> None:
    """Raise a tenant's sum of the day."""
    await tx.run(_ADD_OF_TENANT, tenant_id=tenant.tenant_id, day=day_of(now), tokens=tokens)


async def read_of_tenant(tx: Tx, tenant: Tenant, day: str) -> int:
    """The tokens that a tenant spent on a day, in and out together."""
    return int(await tx.scalar(_OF_TENANT, of_tenant=tenant.tenant_id, of_day=day) or 0)
