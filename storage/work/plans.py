"""Plans of threads, each change a revision, and the open work of a scope."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.json_text import DAMAGED, NOTE, to_json, value_of
from layerlore.storage.core.records import Scope, StoredPlan, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of, parameters
from layerlore.storage.core.tables import plans, runs
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import THREAD
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.threads import threads
from layerlore.storage.work.runs import COLUMNS, LIVE, Run, run_of

MOST_REVISIONS = 100

_ALL = select(plans.c.revision, plans.c.plan, plans.c.actor, plans.c.created_at).where(in_thread(plans))
_NEWEST = _ALL.order_by(plans.c.revision.desc()).limit(1)
_SOME = _ALL.where(any_of(plans.c.revision, "revisions"))
_OLDEST = select(func.min(plans.c.revision)).where(in_thread(plans))
_INSERT = insert(plans).values(**parameters(*THREAD, "revision", "plan", "actor", "created_at", "is_open"))
_CLOSE = (
    update(plans)
    .where(in_thread(plans), plans.c.revision == bindparam("old_revision"))
    .values(is_open=literal_column("0"))
)
_FORGET = delete(plans).where(in_thread(plans), plans.c.revision <= bindparam("last_forgotten"))


@dataclass(frozen=True, slots=True)
class Revision:
    """A plan as it was, and who made it so."""

    revision: int
    plan: StoredPlan
    actor: str
    created_at: int


@dataclass(frozen=True, slots=True)
class PlanChange:
    """The revisions before and after a change; both are the same if it changed nothing."""

    thread: Thread
    before: Revision | None
    after: Revision


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """The open plan, the oldest revision that is stored, and those of the revisions asked for that are."""

    newest: Revision
    oldest: int
    revisions: dict[int, Revision]


async def change(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    make: Callable[[StoredPlan | None], StoredPlan],
    *,
    expected_revision: int | None,
    actor: str,
    new_uid: str,
    now: int,
    is_open: Callable[[StoredPlan], bool],
) -> PlanChange:
    """Replace a thread's plan by what ``make`` makes of it (of None: none exists yet), under the thread's lock.
    ``is_open`` says of a plan whether something in it is still to be done.

    A plan equal to the one before is not a new revision. The thread is made if it is absent. Raises Conflict when the
    revision is not the one expected (0: no plan yet), and whatever ``make`` raises; then nothing happened.
    """
    thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, now)
    of = of_thread(scope, thread.thread_uid)
    before = _revision(await tx.one(_NEWEST, **of))
    if before:
        revision = before.revision
    else:
        revision = 0
    if expected_revision is not None and expected_revision != revision:
        raise Conflict(
            f"expected_revision={expected_revision}, but the plan is at revision {revision}; nothing was changed: "
            "read it with action='review', and send the change again if it still fits"
            if before
            else f"expected_revision={expected_revision}, but thread {thread_id!r} has no plan yet (revision 0); "
            "action='create' makes one"
        )
    made = make(before.plan if before else None)
    if before is not None and made == before.plan:
        return PlanChange(thread, before, before)
    after = Revision(revision + 1, made, actor, now)
    # Only the newest revision may be open, or the thread would have two open plans.
    if before is not None:
        await tx.run(_CLOSE, **of, old_revision=before.revision)
    await tx.run(
        _INSERT,
        **of,
        revision=after.revision,
        plan=to_json(made),
        actor=actor,
        created_at=now,
        is_open=int(is_open(made)),
    )
    await tx.run(_FORGET, **of, last_forgotten=after.revision - MOST_REVISIONS)
    return PlanChange(thread, before, after)


async def read_history(tx: Tx, scope: Scope, thread_id: str, revisions: Sequence[int] = ()) -> PlanHistory | None:
    """The open plan of a thread, if it has one, and other revisions of it. Raises NotFound for an unknown thread."""
    thread = await threads.find(tx, scope, thread_id)
    of = of_thread(scope, thread.thread_uid)
    newest = _revision(await tx.one(_NEWEST, **of))
    oldest = await tx.scalar(_OLDEST, **of)
    if newest is None or oldest is None:
        return None
    if revisions:
        rows = await tx.all(_SOME, **of, revisions=list(revisions))
    else:
        rows = []
    found_revisions = [found for found in map(_revision, rows) if found is not None]
    return PlanHistory(newest, oldest, {found.revision: found for found in found_revisions})


async def read_newest(tx: Tx, scope: Scope, thread: Thread) -> Revision | None:
    """The open plan of a thread that was found in this transaction."""
    return _revision(await tx.one(_NEWEST, **of_thread(scope, thread.thread_uid)))


def _revision(row: Row | None) -> Revision | None:
    if row is None:
        return None
    revision, plan, actor, created_at = row
    return Revision(revision, plan_of(plan), actor, created_at)


def plan_of(stored: str) -> StoredPlan:
    """A plan as it is stored; one whose goal says so if it is damaged."""
    plan = value_of(stored)
    if isinstance(plan, dict) and plan != DAMAGED:
        return cast("StoredPlan", plan)
    return {"goal": NOTE, "current_phase": "", "iteration": 1, "steps": [], "last_id": 0}


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
    # A full page may not be all: only then is a count worth its cost.
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
