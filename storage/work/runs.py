"""Runs of agents, and the checkpoint of each that is suspended.

A run's id is its scope's, not its thread's: who resumes it need not know the thread. A change of a run holds its
thread. The caller checks the rules of a run, between ``lock`` and the change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Integer,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    delete,
    func,
    not_,
    or_,
    select,
    tuple_,
    update,
)

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.json_text import object_of, to_json
from layerlore.storage.core.records import Json, Scope, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread, some
from layerlore.storage.core.statements import any_of, insert_or_ignore, parameters
from layerlore.storage.core.tables import runs
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import THREAD
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.threads import threads

Status = Literal["running", "suspended", "completed", "failed", "cancelled"]
Ending = Literal["completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Run:
    """A run without its content. ``pending`` and ``answered`` (the ids of the calls in it that were answered) are JSON
    text. ``claim`` and its holder stay when the run is suspended again or ends, so that a holder who lost the answer
    can be recognised. ``workflow_id`` is empty if none exists, ``parent_run_id`` None, and so is ``ended_by`` until it
    ends."""

    run_id: str
    thread_id: str
    thread_uid: str
    workflow_id: str
    status: Status
    metadata: Json
    pending: str
    reason: str | None
    epoch: int
    claim: str | None
    claimed_by: str | None
    claimed_at: int | None
    claimed_until: int | None
    expires_at: int | None
    created_at: int
    updated_at: int
    answered: str = "[]"
    parent_run_id: str | None = None
    ended_by: str | None = None


class RunContent(NamedTuple):
    """The fields that may be large, as JSON text: the state (None before the first, and once the run has ended), the
    answers to pending calls, the output, and what was spent."""

    state: str | None
    resumed: str
    output: str | None
    usage: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The fields of a stored run. ``state`` (None: none yet) and ``pending`` are JSON text, kept to the byte."""

    state: str | None
    pending: str
    workflow_id: str
    metadata: Json
    reason: str | None
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to pending calls: all that were brought, and the ids of the calls that they are for, as JSON text."""

    brought: str = "[]"
    answered: str = "[]"


NO_ANSWERS = Answers()


@dataclass(frozen=True, slots=True)
class RunClaim:
    """The holder of a run, and the end of its claim; ``token`` is the claim's own name, never used twice."""

    epoch: int
    token: str
    holder: str
    at: int
    until: int


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ends: ``output`` is JSON text, ``by`` who ended it."""

    status: Ending
    output: str | None
    by: str | None
    reason: str | None = None


COLUMNS = (
    runs.c.run_id,
    threads_table.c.thread_id,
    runs.c.thread_uid,
    runs.c.workflow_id,
    runs.c.status,
    runs.c.metadata,
    runs.c.pending,
    runs.c.reason,
    runs.c.epoch,
    runs.c.claim,
    runs.c.claimed_by,
    runs.c.claimed_at,
    runs.c.claimed_until,
    runs.c.expires_at,
    runs.c.created_at,
    runs.c.updated_at,
    runs.c.answered,
    runs.c.parent_run_id,
    runs.c.ended_by,
)
LIVE = threads_table.c.deletion_uid.is_(None)
_named = runs.c.run_id == bindparam("run_id")
_FIND = (
    select(*COLUMNS)
    .join_from(runs, threads_table, same_thread(runs, threads_table))
    .where(in_scope(runs), _named, LIVE)
)
_HIDDEN = (
    select(runs.c.run_id)
    .join_from(runs, threads_table, same_thread(runs, threads_table))
    .where(in_scope(runs), _named, threads_table.c.deletion_uid.is_not(None))
)
_FIND_IN_THREAD = _FIND.where(runs.c.thread_uid == bindparam("thread_uid"))
_CONTENT = select(runs.c.state, runs.c.resumed, runs.c.output, runs.c.usage).where(in_thread(runs), _named)

_CHECKPOINT = ("workflow_id", "metadata", "state", "pending", "reason", "expires_at")
_ANSWERS = ("resumed", "answered")
_CLAIMED = ("epoch", "claim", "claimed_by", "claimed_at", "claimed_until")
_ENDED = ("output", "ended_by")
_CREATE = insert_or_ignore(
    runs,
    {
        **parameters(*THREAD, "run_id"),
        **parameters(*_CHECKPOINT, *_CLAIMED, *_ENDED, "status", "parent_run_id", prefix="new_"),
        "resumed": "[]",
        "created_at": bindparam("now"),
        "updated_at": bindparam("now"),
    },
)


def _change(*names: str, **values: Any) -> Update:
    """A change of a run: of each name to its parameter, and to the values."""
    of = {**parameters(*names, prefix="new_"), **values}
    return update(runs).where(in_thread(runs), _named).values(**of)


_now: BindParameter[int] = bindparam("now")
_SUSPEND = _change(*_CHECKPOINT, *_ANSWERS, status="suspended", updated_at=_now)
_CLAIM = _change(*_ANSWERS, *_CLAIMED, status="running", updated_at=_now)
# updated_at stays as it is, so that no watcher is notified.
_RENEW = _change("claimed_until")
_UPDATE = _change(
    *("metadata", "pending", "workflow_id", "claimed_until", *_ANSWERS),
    state=func.coalesce(bindparam("new_state", type_=Text()), runs.c.state),
    updated_at=_now,
)
_ANSWER = _change(*_ANSWERS, updated_at=_now)
_FINISH = _change(
    *(*_ENDED, "status", "reason"),
    # An ended run is not resumed, so the large parts of its checkpoint go.
    state=None,
    pending="[]",
    resumed="[]",
    answered="[]",
    expires_at=None,
    updated_at=_now,
)
_SPEND = _change("usage")
_SPENT = select(runs.c.usage).where(in_thread(runs), _named)
_below = (
    select(runs.c.run_id)
    .where(in_scope(runs), runs.c.parent_run_id == bindparam("run_id"))
    .cte("below", recursive=True)
)
_child = runs.alias("child")
# UNION leaves out runs that were found before, so a circle of parents ends.
_below = _below.union(
    select(_child.c.run_id).join(_below, _child.c.parent_run_id == _below.c.run_id).where(in_scope(_child))
)
_SPENT_BELOW = (
    select(runs.c.run_id, runs.c.workflow_id, runs.c.usage)
    .join_from(runs, _below, runs.c.run_id == _below.c.run_id)
    .join(threads_table, same_thread(runs, threads_table))
    .where(in_scope(runs), runs.c.run_id != bindparam("run_id"), LIVE)
    .order_by(runs.c.created_at, runs.c.run_id)
    .limit(bindparam("most"))
)


def run_of(row: Row) -> Run:
    """A run, from ``COLUMNS``."""
    run_id, thread_id, thread_uid, workflow_id, status, metadata, *rest = row
    return Run(
        run_id, thread_id, thread_uid, workflow_id, status, {} if metadata == "{}" else object_of(metadata), *rest
    )


async def find(tx: Tx, scope: Scope, run_id: str) -> Run:
    """The run of that id, of a live thread. Raises NotFound, also for another scope's."""
    return _found(await tx.one(_FIND, **of_scope(scope), run_id=run_id), run_id)


async def lock(tx: Tx, scope: Scope, run_id: str) -> tuple[Run, Thread]:
    """The run of that id and its thread, both held until the transaction ends. Raises NotFound."""
    # The thread to lock is known only once the run was read.
    seen = await find(tx, scope, run_id)
    try:
        thread = await threads.lock(tx, scope, seen.thread_id)
    except NotFound:  # deleted meanwhile
        raise _unknown(run_id) from None
    # The run may have changed before its thread was locked, so it is read again.
    return await lock_run(tx, scope, thread, run_id), thread


async def lock_run(tx: Tx, scope: Scope, thread: Thread, run_id: str) -> Run:
    """The run of a thread that the transaction holds. Raises NotFound."""
    return _found(await tx.one(_FIND_IN_THREAD, **of_thread(scope, thread.thread_uid), run_id=run_id), run_id)


def _found(row: Row | None, run_id: str) -> Run:
    if row is None:
        raise _unknown(run_id)
    return run_of(row)


def _unknown(run_id: str) -> NotFound:
    return NotFound(f"there is no run {run_id!r}; list_runs shows the ones there are")


async def content(tx: Tx, scope: Scope, run: Run) -> RunContent:
    """The content of a run. Raises NotFound."""
    row = await tx.one(_CONTENT, **of_thread(scope, run.thread_uid), run_id=run.run_id)
    if row is None:
        raise _unknown(run.run_id)
    return RunContent(*row)


async def create(
    tx: Tx,
    scope: Scope,
    thread: Thread,
    run_id: str,
    checkpoint: Checkpoint,
    *,
    now: int,
    claim: RunClaim | None = None,
    end: RunEnd | None = None,
    parent_run_id: str | None = None,
) -> bool:
    """Add a run to a thread that the transaction holds: one that is suspended, that runs with a claim, or that has ended
    already. False if the id is in use in the scope, also by an invisible run of a deleted thread."""
    made = await tx.run(
        _CREATE,
        **of_thread(scope, thread.thread_uid),
        **_stored(checkpoint),
        **_claimed(claim),
        run_id=run_id,
        new_status=end.status if end else "running" if claim else "suspended",
        new_output=end.output if end else None,
        new_ended_by=end.by if end else None,
        new_parent_run_id=parent_run_id,
        now=now,
    )
    return bool(made)


async def is_hidden(tx: Tx, scope: Scope, run_id: str) -> bool:
    """Whether there is such a run, of a deleted thread."""
    return await tx.one(_HIDDEN, **of_scope(scope), run_id=run_id) is not None


async def suspend(
    tx: Tx, scope: Scope, run: Run, checkpoint: Checkpoint, *, now: int, answers: Answers = NO_ANSWERS
) -> None:
    """Suspend a held run: the checkpoint replaces the one before, and ``answers`` those to that."""
    of = {**of_thread(scope, run.thread_uid), **_stored(checkpoint), **_answers(answers)}
    await tx.run(_SUSPEND, **of, run_id=run.run_id, now=now)


async def claim(tx: Tx, scope: Scope, run: Run, claim: RunClaim, *, answers: Answers, now: int) -> None:
    """Give a held run to the caller that resumes it."""
    of = {**of_thread(scope, run.thread_uid), **_answers(answers), **_claimed(claim)}
    await tx.run(_CLAIM, **of, run_id=run.run_id, now=now)


async def renew(tx: Tx, scope: Scope, run: Run, *, until: int) -> None:
    """Let the claim on a held run last until then: nothing else changes, and no watcher is notified."""
    await tx.run(_RENEW, **of_thread(scope, run.thread_uid), run_id=run.run_id, new_claimed_until=until)


async def change(
    tx: Tx, scope: Scope, run: Run, checkpoint: Checkpoint, *, answers: Answers, until: int, now: int
) -> None:
    """Store the new parts of a held, running run, and renew its claim; a ``state`` of None leaves it as it is.
    Reason and expiry stay."""
    stored = _stored(checkpoint)
    del stored["new_reason"], stored["new_expires_at"]
    of = {**of_thread(scope, run.thread_uid), **stored, **_answers(answers), "new_claimed_until": until}
    await tx.run(_UPDATE, **of, run_id=run.run_id, now=now)


async def answer(tx: Tx, scope: Scope, run: Run, answers: Answers, *, now: int) -> None:
    """Keep answers to the pending calls of a held run."""
    await tx.run(_ANSWER, **of_thread(scope, run.thread_uid), **_answers(answers), run_id=run.run_id, now=now)


async def finish(tx: Tx, scope: Scope, run: Run, end: RunEnd, *, now: int) -> None:
    """End a held run; its checkpoint is removed, and the output stays."""
    await tx.run(
        _FINISH,
        **of_thread(scope, run.thread_uid),
        run_id=run.run_id,
        new_status=end.status,
        new_output=end.output,
        new_ended_by=end.by,
        new_reason=end.reason,
        now=now,
    )


async def read_spent(tx: Tx, scope: Scope, thread: Thread, run_id: str) -> str | None:
    """The cost of a run of a thread that the transaction holds, as JSON text; None without such a run."""
    row = await tx.one(_SPENT, **of_thread(scope, thread.thread_uid), run_id=run_id)
    if row is None:
        return None
    return str(row[0])


async def spend(tx: Tx, scope: Scope, thread: Thread, run_id: str, spent: str) -> None:
    """Store what was spent in a run of a thread that the transaction holds, as JSON text."""
    await tx.run(_SPEND, **of_thread(scope, thread.thread_uid), run_id=run_id, new_usage=spent)


async def read_spent_below(tx: Tx, scope: Scope, run_id: str, *, most: int) -> list[tuple[str, str, str]]:
    """The cost of the runs that have this one as their parent, of their children, and so on: run id, workflow id and
    JSON text of each, those made first first."""
    rows = await tx.all(_SPENT_BELOW, **of_scope(scope), run_id=run_id, most=most)
    return [(str(id_), str(workflow_id), str(spent)) for id_, workflow_id, spent in rows]


def _stored(checkpoint: Checkpoint) -> dict[str, str | int | None]:
    return {
        "new_workflow_id": checkpoint.workflow_id,
        "new_metadata": to_json(checkpoint.metadata),
        "new_state": checkpoint.state,
        "new_pending": checkpoint.pending,
        "new_reason": checkpoint.reason,
        "new_expires_at": checkpoint.expires_at,
    }


def _answers(answers: Answers) -> dict[str, str | int | None]:
    return {"new_resumed": answers.brought, "new_answered": answers.answered}


def _claimed(claim: RunClaim | None) -> dict[str, str | int | None]:
    return {
        "new_epoch": claim.epoch if claim else 0,
        "new_claim": claim.token if claim else None,
        "new_claimed_by": claim.holder if claim else None,
        "new_claimed_at": claim.at if claim else None,
        "new_claimed_until": claim.until if claim else None,
    }


# As times, before and after everything.
_FIRST, _LAST = -(2**62), 2**62
_FILTERED_PAGE = 200

Place = tuple[int, str]
"""The place of a run in the list: when it was made, and its id."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A filter of runs. Fields that are empty or None do not restrict it. ``now`` says which have expired: they have no
    other of the ``statuses``, and are among them if ``expired``. ``since`` and ``until`` mean when a run was made, both
    times included. ``has`` decides by the run."""

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
"""Runs whose checkpoint has expired and that have no current claim."""
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
    # The filter is code, so more rows are read at a time than are wanted.
    if wanted.has:
        page_size = _FILTERED_PAGE
    else:
        page_size = limit + 1
    chosen: list[Run] = []
    while True:
        page = _page(
            of_statuses=chosen_by,
            of_workflow=bool(wanted.workflow_id),
            of_one_thread=bool(wanted.thread_id),
            continued=after is not None,
        )
        if after:
            from_there = dict(zip(("after_time", "after_id"), after, strict=True))
        else:
            from_there = {}
        rows, stopped = await some(tx, page, **of, **from_there, page_size=page_size)
        for run in map(run_of, rows):
            if wanted.has is None or wanted.has(run):
                # There is one more, so another page follows.
                if len(chosen) == limit:
                    return chosen, after
                chosen.append(run)
            after = (run.created_at, run.run_id)
        # Reading stopped since the rows were long. A page may end there.
        if stopped and chosen:
            return chosen, after
        if not stopped and len(rows) < page_size:
            return chosen, None


@dataclass(frozen=True, slots=True)
class ExpiredRun:
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
    # Does not wait: a run that is being resumed or suspended meanwhile is left alone, and so is a thread at work.
    .with_for_update(of=[runs, threads_table], skip_locked=True)
)
_REMOVE = delete(runs).where(in_thread(runs), runs.c.run_id == bindparam("run_id"))


async def expire(tx: Tx, scope: Scope, *, now: int, most: int = 100) -> list[ExpiredRun]:
    """Remove at most ``most`` runs whose checkpoint has expired; none while a claim on it lasts.
    The holder of the newest claim loses the run with it, once its time is over."""
    found = [
        ExpiredRun(run_id, Thread(uid, thread_id, None, next_event_seq=next_event_seq, created_at=created_at))
        for run_id, uid, thread_id, next_event_seq, created_at in await tx.all(
            _EXPIRED, **of_scope(scope), now=now, most=most
        )
    ]
    if found:
        gone = [{**of_thread(scope, each.thread.thread_uid), "run_id": each.run_id} for each in found]
        await tx.many(_REMOVE, gone)
    return found
