"""Runs as they are listed, and the removal of those that have expired."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Integer, Select, and_, bindparam, delete, not_, or_, select, tuple_

from layerlore.storage.core.pages import some
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import runs
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import threads
from layerlore.storage.work.runs import COLUMNS, LIVE, Run, Status, run_of

# As times, before and after everything.
_FIRST, _LAST = -(2**62), 2**62
_FILTERED_PAGE = 200

Place = tuple[int, str]
"""Of a run in the list: when it was made, and its id."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs; what is empty or None asks for nothing. ``now`` says which have expired: they have no other of the
    ``statuses``, and are among them if ``expired``. ``since`` and ``until`` mean when a run was made, both times
    included. ``has`` decides by the run."""

    now: int
    statuses: Sequence[Status] = ()
    expired: bool = False
    workflow_id: str = ""
    thread_id: str = ""
    since: int | None = None
    until: int | None = None
    has: Callable[[Run], bool] | None = None


EXPIRED = and_(
    runs.c.expires_at <= bindparam("now"),
    not_(and_(runs.c.status == "running", runs.c.claimed_until > bindparam("now"))),
)
"""Of a run whose checkpoint has expired and on which no claim lasts."""
_LASTING = or_(
    runs.c.expires_at.is_(None),
    runs.c.expires_at > bindparam("now"),
    and_(runs.c.status == "running", runs.c.claimed_until > bindparam("now")),
)


@cache
def _page(*, of_statuses: bool, of_workflow: bool, of_one_thread: bool, continued: bool) -> Select[Any]:
    order = (runs.c.created_at, runs.c.run_id)
    query = (
        select(*COLUMNS)
        .join_from(runs, threads_table, same_thread(runs, threads_table))
        .where(in_scope(runs), LIVE, runs.c.created_at.between(bindparam("since"), bindparam("until")))
        .order_by(*(column.desc() for column in order))
        .limit(bindparam("page_size"))
    )
    if of_statuses:
        lasting = and_(any_of(runs.c.status, "statuses"), _LASTING)
        query = query.where(or_(lasting, and_(bindparam("expired", type_=Integer()) == 1, EXPIRED)))
    if of_workflow:
        query = query.where(runs.c.workflow_id == bindparam("workflow_id"))
    if of_one_thread:
        query = query.where(runs.c.thread_uid == bindparam("thread_uid"))
    if continued:
        start = tuple_(bindparam("after_time", type_=BigInteger()), bindparam("after_id"))
        query = query.where(tuple_(*order) < start)
    return query


async def read_page(
    tx: Tx, scope: Scope, wanted: RunFilter, *, after: Place | None, limit: int
) -> tuple[list[Run], Place | None]:
    """Runs of live threads, those made last first, and where the next page goes on. Raises NotFound for the thread."""
    chosen_by = bool(wanted.statuses) or wanted.expired
    of = {
        **of_scope(scope),
        "since": _FIRST if wanted.since is None else wanted.since,
        "until": _LAST if wanted.until is None else wanted.until,
        **({"statuses": list(wanted.statuses), "expired": int(wanted.expired), "now": wanted.now} if chosen_by else {}),
        **({"workflow_id": wanted.workflow_id} if wanted.workflow_id else {}),
    }
    if wanted.thread_id:
        of["thread_uid"] = (await threads.find(tx, scope, wanted.thread_id)).thread_uid
    page_size = _FILTERED_PAGE if wanted.has else limit + 1
    chosen: list[Run] = []
    while True:
        page = _page(
            of_statuses=chosen_by,
            of_workflow=bool(wanted.workflow_id),
            of_one_thread=bool(wanted.thread_id),
            continued=after is not None,
        )
        from_there = dict(zip(("after_time", "after_id"), after, strict=True)) if after else {}
        rows, stopped = await some(tx, page, **of, **from_there, page_size=page_size)
        for run in map(run_of, rows):
            if wanted.has is None or wanted.has(run):
                if len(chosen) == limit:
                    return chosen, after
                chosen.append(run)
            after = (run.created_at, run.run_id)
        if stopped and chosen:
            return chosen, after
        if not stopped and len(rows) < page_size:
            return chosen, None


@dataclass(frozen=True, slots=True)
class Expired:
    """A run that was removed, and the thread that it belonged to, which the transaction holds."""

    run_id: str
    thread: Thread


_EXPIRED = (
    select(
        runs.c.run_id,
        threads_table.c.thread_uid,
        threads_table.c.thread_id,
        threads_table.c.next_event_seq,
        threads_table.c.created_at,
    )
    .join_from(runs, threads_table, same_thread(runs, threads_table))
    .where(in_scope(runs), EXPIRED)
    .order_by(runs.c.expires_at)
    .limit(bindparam("most"))
    # Waits for nobody: a run that is being resumed or suspended meanwhile is left alone, and so is a thread at work.
    .with_for_update(of=[runs, threads_table], skip_locked=True)
)
_REMOVE = delete(runs).where(in_thread(runs), runs.c.run_id == bindparam("run_id"))


async def expire(tx: Tx, scope: Scope, *, now: int, most: int = 100) -> list[Expired]:
    """Remove at most ``most`` runs whose checkpoint has expired; none while a claim on it lasts.
    Whoever holds the newest claim, its time over, loses the run with it."""
    found = [
        Expired(run_id, Thread(uid, thread_id, None, next_event_seq=next_event_seq, created_at=created_at))
        for run_id, uid, thread_id, next_event_seq, created_at in await tx.all(
            _EXPIRED, **of_scope(scope), now=now, most=most
        )
    ]
    if found:
        gone = [{**of_thread(scope, each.thread.thread_uid), "run_id": each.run_id} for each in found]
        await tx.many(_REMOVE, gone)
    return found
