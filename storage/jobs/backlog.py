"""The background jobs of all tenants, counted for an operator."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from sqlalchemy import BigInteger, CompoundSelect, Select, bindparam, case, func, select

from layerlore.storage.core.installation import Look
from layerlore.storage.core.records import Tenant
from layerlore.storage.core.tables import jobs
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs.job_rows import Kind, State, oldest_of_each_kind


@dataclass(frozen=True, slots=True)
class JobCount:
    """The unfinished jobs of one kind in one state: how many, when the oldest was or will be due (milliseconds), and how
    many failed at their last attempt. ``of_others``: how many are not of the tenant that asks."""

    kind: Kind
    state: State
    jobs: int
    due_at: int
    failed: int
    of_others: int


_state = case(
    (jobs.c.dead_at.is_not(None), "dead"),
    (jobs.c.lease_until > bindparam("now"), "running"),
    (jobs.c.due_at <= bindparam("now"), "due"),
    else_="later",
)
_unfinished = select(jobs.c.tenant_id, jobs.c.kind, _state.label("state"), jobs.c.due_at, jobs.c.attempts).where(
    jobs.c.requested_seq > jobs.c.done_seq
)
_COLUMNS = (
    ("kind", "text"),
    ("state", "varchar"),
    *((name, "bigint") for name in ("jobs", "due_at", "failed", "of_others")),
)


def _counted(some: Select[Any] | CompoundSelect[Any]) -> Select[Any]:
    rows = some.subquery("rows_of_jobs")
    failed = func.count(case((rows.c.attempts > 0, 1)))
    of_others = func.count(case((rows.c.tenant_id != bindparam("of_tenant"), 1)))
    return (
        select(rows.c.kind, rows.c.state, func.count(), func.min(rows.c.due_at), failed, of_others)
        .group_by(rows.c.kind, rows.c.state)
        .order_by(rows.c.kind, rows.c.state)
    )


_COUNT_ALL = Look("layerlore_unfinished_jobs", _counted(_unfinished), _COLUMNS)
_oldest = oldest_of_each_kind(_unfinished, bindparam("most", type_=BigInteger))
_COUNT_OLDEST = Look("layerlore_oldest_jobs", _counted(_oldest), _COLUMNS)


async def count_all(tx: Tx, tenant: Tenant, *, now: int) -> list[JobCount]:
    """The unfinished jobs by kind and state, for an operator of this tenant. It reads every one of them."""
    return [JobCount(*row) for row in await _COUNT_ALL.rows(tx, of_tenant=tenant.tenant_id, now=now)]


async def count_oldest(tx: Tx, tenant: Tenant, *, most: int, now: int) -> list[JobCount]:
    """The same of the ``most`` jobs of each kind that wait longest and are not dead, so that it costs little."""
    return [JobCount(*row) for row in await _COUNT_OLDEST.rows(tx, of_tenant=tenant.tenant_id, most=most, now=now)]


def add_counts(of_clusters: Iterable[Sequence[JobCount]]) -> list[JobCount]:
    """The counts of several clusters as one, by kind and state."""
    added: dict[tuple[Kind, State], JobCount] = {}
    for count in chain.from_iterable(of_clusters):
        place = count.kind, count.state
        before = added.get(place, replace(count, jobs=0, failed=0, of_others=0))
        added[place] = replace(
            before,
            jobs=before.jobs + count.jobs,
            due_at=min(before.due_at, count.due_at),
            failed=before.failed + count.failed,
            of_others=before.of_others + count.of_others,
        )
    return [added[place] for place in sorted(added)]
