"""Plans of threads: every change is a revision, and the newest revision is the plan.

Revisions are counted on over all plans of a thread; of what was, the last ones are kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update

from layerlore.storage.core.damaged_values import DAMAGED, NOTE, value_of
from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Scope, StoredPlan, Thread
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import plans
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.threads import threads

MOST_REVISIONS = 100

_COLUMNS = (plans.c.revision, plans.c.plan, plans.c.actor, plans.c.created_at)
_ALL = select(*_COLUMNS).where(in_thread(plans))
_NEWEST = _ALL.order_by(plans.c.revision.desc()).limit(1)
_SOME = _ALL.where(any_of(plans.c.revision, "revisions"))
_OLDEST = select(func.min(plans.c.revision)).where(in_thread(plans))
_INSERT = insert(plans).values(
    **{
        name: bindparam(name)
        for name in (
            *("tenant_id", "agent_id", "resource_id", "thread_uid"),
            *("revision", "plan", "actor", "created_at", "is_open"),
        )
    }
)
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
    """What a change met and what it left; both are the same revision if it changed nothing."""

    thread: Thread
    before: Revision | None
    after: Revision


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """The open plan, the oldest revision that is kept, and those of the revisions asked for that are."""

    newest: Revision
    oldest: int
    asked: dict[int, Revision]


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
    """Replace a thread's plan by what ``make`` makes of it (of None: there is none yet), under the thread's lock.
    ``is_open`` says of a plan whether something in it is still to be done.

    A plan equal to the one before is no new revision. The thread is made if it is absent. Raises Conflict when the
    revision is not the one expected (0: no plan yet), and whatever ``make`` raises; then nothing happened.
    """
    thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, now)
    of = of_thread(scope, thread.thread_uid)
    before = _revision(await tx.one(_NEWEST, **of))
    revision = before.revision if before else 0
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
    rows = await tx.all(_SOME, **of, revisions=list(revisions)) if revisions else []
    asked = [found for found in map(_revision, rows) if found is not None]
    return PlanHistory(newest, oldest, {found.revision: found for found in asked})


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
