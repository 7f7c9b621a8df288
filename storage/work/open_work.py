"""Open work of a scope: plans in which something is still to be done, and runs that are suspended."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, bindparam, func, literal_column, or_, select

from layerlore.storage.core.records import Scope, StoredPlan
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.tables import plans, runs
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Tx
from layerlore.storage.work.plans import plan_of
from layerlore.storage.work.runs import COLUMNS, LIVE, Run, run_of

MOST_COUNTED = 100


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """An open plan, its thread, and when it was changed last."""

    thread_id: str
    plan: StoredPlan
    updated_at: int


@dataclass(frozen=True, slots=True)
class OpenWork:
    """The newest open plans and suspended runs, and how many there are of each, MOST_COUNTED at most."""

    plans: tuple[OpenPlan, ...] = ()
    runs: tuple[Run, ...] = ()
    total_plans: int = 0
    total_runs: int = 0

    def without(self, thread_ids: Collection[str]) -> "OpenWork":
        """The open work that is not of these threads, as far as it was read."""
        plans_left = tuple(each for each in self.plans if each.thread_id not in thread_ids)
        runs_left = tuple(each for each in self.runs if each.thread_id not in thread_ids)
        return OpenWork(plans_left, runs_left, len(plans_left), len(runs_left))


def _live(table: FromClause, whose: ColumnElement[bool], condition: ColumnElement[bool], *columns: Any) -> Select[Any]:
    return (
        select(*columns)
        .join_from(table, threads_table, same_thread(table, threads_table))
        .where(whose, condition, LIVE)
        .limit(bindparam("most"))
    )


def _open(table: FromClause, condition: ColumnElement[bool], *columns: Any) -> Select[Any]:
    return _live(table, in_scope(table), condition, *columns).where(table.c.thread_uid != bindparam("other_than"))


def _count(query: Select[Any]) -> Select[int]:
    return select(func.count()).select_from(query.subquery())


# Written out, so that the partial indexes serve.
_open_plan = plans.c.is_open == literal_column("1")
_suspended_run = (runs.c.status == literal_column("'suspended'")) & or_(
    runs.c.expires_at.is_(None), runs.c.expires_at > bindparam("now")
)
_PLANS = _open(plans, _open_plan, threads_table.c.thread_id, plans.c.plan, plans.c.created_at).order_by(
    plans.c.created_at.desc(), plans.c.thread_uid.desc()
)
_newest_runs = (runs.c.updated_at.desc(), runs.c.run_id.desc())
_RUNS = _open(runs, _suspended_run, *COLUMNS).order_by(*_newest_runs)
_SUSPENDED_HERE = _live(runs, in_thread(runs), _suspended_run, *COLUMNS).order_by(*_newest_runs)
_COUNT_PLANS = _count(_open(plans, _open_plan, plans.c.revision))
_COUNT_RUNS = _count(_open(runs, _suspended_run, runs.c.run_id))


async def find_open(tx: Tx, scope: Scope, *, other_than: str, now: int, most: int) -> OpenWork:
    """The open work of all threads but the one with the uid ``other_than`` (empty: of all), of each kind at most
    ``most``, those changed last first. A run whose checkpoint has expired by ``now`` is not open."""
    of = {**of_scope(scope), "other_than": other_than}
    plan_rows = await tx.all(_PLANS, **of, most=most)
    run_rows = await tx.all(_RUNS, **of, now=now, most=most)
    total_plans, total_runs = len(plan_rows), len(run_rows)
    if total_plans == most:
        total_plans = int(await tx.scalar(_COUNT_PLANS, **of, most=MOST_COUNTED))
    if total_runs == most:
        total_runs = int(await tx.scalar(_COUNT_RUNS, **of, now=now, most=MOST_COUNTED))
    return OpenWork(
        tuple(OpenPlan(thread_id, plan_of(plan), updated_at) for thread_id, plan, updated_at in plan_rows),
        tuple(map(run_of, run_rows)),
        total_plans,
        total_runs,
    )


async def find_suspended(tx: Tx, scope: Scope, thread_uid: str, *, now: int, most: int) -> tuple[Run, ...]:
    """The suspended runs of a thread, at most ``most``, those changed last first, without those that have expired by
    ``now``."""
    return tuple(map(run_of, await tx.all(_SUSPENDED_HERE, **of_thread(scope, thread_uid), now=now, most=most)))
