"""Steps of agents in their order, and the attempts at a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, func, insert, select, update

from layerlore.storage.core.json_text import object_of, to_json
from layerlore.storage.core.records import Json, Scope, Thread
from layerlore.storage.core.scopes import in_thread, of_thread, some
from layerlore.storage.core.statements import any_of, parameters
from layerlore.storage.core.tables import attempts, messages, steps
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import THREAD
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import threads
from layerlore.storage.threads.events import of_visible_message


@dataclass(frozen=True, slots=True)
class NewStep:
    """A step. ``body`` is all of it but operation, type and time; ``message_seq`` is the message that it was made
    from, if it was: the step is hidden and erased with it."""

    operation_id: str
    type: str
    body: Json
    created_at: int
    message_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A stored step."""

    seq: int
    operation_id: str
    type: str
    body: Json
    created_at: int


@dataclass(frozen=True, slots=True)
class StepPage:
    """Steps in the order in which they were recorded."""

    thread: Thread
    steps: list[Step]
    more: bool


_TAKE = (
    update(threads_table)
    .where(in_thread(threads_table))
    .values(next_step_seq=threads_table.c.next_step_seq + bindparam("count"), updated_at=bindparam("now"))
    .returning(threads_table.c.next_step_seq)
)
_INSERT = insert(steps).values(**{column.name: bindparam(column.name) for column in steps.c})
_MESSAGE_SEQS = select(messages.c.id, messages.c.seq).where(
    in_thread(messages), any_of(messages.c.id, "ids"), messages.c.deletion_uid.is_(None)
)


async def record(tx: Tx, scope: Scope, thread: Thread, made: Sequence[NewStep], *, now: int) -> int:
    """Write steps of a thread that the transaction holds. Returns the seq of the first: they come in order."""
    of = of_thread(scope, thread.thread_uid)
    # The update holds the thread's row, so that the numbers have no gap and are used once.
    first: int = await tx.scalar(_TAKE, **of, count=len(made), now=now) - len(made)
    rows = [
        {
            **of,
            "seq": first + place,
            "operation_id": step.operation_id,
            "type": step.type,
            "body": to_json(step.body),
            "message_seq": step.message_seq,
            "created_at": step.created_at,
        }
        for place, step in enumerate(made)
    ]
    await tx.many(_INSERT, rows)
    return first


async def message_seqs(tx: Tx, scope: Scope, thread: Thread, ids: Sequence[str]) -> dict[str, int]:
    """The seqs of those of the messages that the thread has and that are not deleted."""
    rows = await tx.all(_MESSAGE_SEQS, **of_thread(scope, thread.thread_uid), ids=list(ids))
    return {id_: seq for id_, seq in rows}  # noqa: C416 - rows are sequences, not pairs


@cache
def _page(of_operation: bool) -> Select[Any]:
    query = (
        select(steps.c.seq, steps.c.operation_id, steps.c.type, steps.c.body, steps.c.created_at)
        .where(in_thread(steps), steps.c.seq > bindparam("after"), of_visible_message(steps))
        .order_by(steps.c.seq)
        .limit(bindparam("page_size"))
    )
    if of_operation:
        return query.where(steps.c.operation_id == bindparam("operation_id"))
    return query


async def read_page(tx: Tx, scope: Scope, thread_id: str, *, operation_id: str, after: int, limit: int) -> StepPage:
    """A thread's steps with a seq above ``after``, of one operation (empty: of all), in order. Raises NotFound."""
    thread = await threads.find(tx, scope, thread_id)
    of = {**of_thread(scope, thread.thread_uid), **({"operation_id": operation_id} if operation_id else {})}
    # One more than wanted shows whether there are more.
    rows, stopped = await some(tx, _page(bool(operation_id)), **of, after=after, page_size=limit + 1)
    found = [Step(seq, operation, type_, object_of(body), at) for seq, operation, type_, body, at in rows]
    return StepPage(thread, found[:limit], stopped or len(found) > limit)


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """The attempt and its outcome; with an error it failed."""

    task_key: str
    action: str
    result: str
    error: str | None = None
    diagnosis: str | None = None
    fix_applied: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A row of the log: the n-th attempt at its task."""

    task_key: str
    attempt: int
    action: str
    result: str
    error: str | None
    diagnosis: str | None
    fix_applied: str | None
    created_at: int


@dataclass(frozen=True, slots=True)
class AttemptPage:
    """The newest attempts, in the order of their logging (by task where there are several), and how many there are."""

    attempts: list[Attempt]
    total: int


_WRITTEN = ("task_key", "attempt", "action", "result", "error", "diagnosis", "fix_applied", "created_at")
_of_task = attempts.c.task_key == bindparam("task_key")
_LAST = select(func.max(attempts.c.attempt)).where(in_thread(attempts), _of_task)
_INSERT_ATTEMPT = insert(attempts).values(**parameters(*THREAD, *_WRITTEN))


async def log(
    tx: Tx, scope: Scope, thread_id: str, tried: NewAttempt, *, new_uid: str, now: int
) -> tuple[Thread, Attempt]:
    """Add an attempt to its task's log; numbers count from 1, without a gap. The thread is made if it is absent."""
    thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, now)
    of = of_thread(scope, thread.thread_uid)
    # The transaction holds the thread, so no other attempt gets this number.
    number = (await tx.scalar(_LAST, **of, task_key=tried.task_key) or 0) + 1
    logged = Attempt(
        tried.task_key,
        number,
        tried.action,
        tried.result,
        tried.error,
        tried.diagnosis,
        tried.fix_applied,
        now,
    )
    await tx.run(_INSERT_ATTEMPT, **of, **{name: getattr(logged, name) for name in _WRITTEN})
    return thread, logged


@cache
def _newest(of_one_task: bool) -> Select[Any]:
    query = select(*(attempts.c[name] for name in _WRITTEN)).where(in_thread(attempts)).limit(bindparam("page_size"))
    if of_one_task:
        return query.where(_of_task).order_by(attempts.c.attempt.desc())
    return query.order_by(attempts.c.created_at.desc(), attempts.c.task_key.desc(), attempts.c.attempt.desc())


@cache
def _count(of_one_task: bool) -> Select[Any]:
    query = select(func.count()).select_from(attempts).where(in_thread(attempts))
    if of_one_task:
        return query.where(_of_task)
    return query


async def read_attempts(tx: Tx, scope: Scope, thread_id: str, *, task_key: str, limit: int) -> AttemptPage:
    """The newest attempts at a task, or (empty ``task_key``) at all tasks of a thread. Raises NotFound."""
    return await read_newest(tx, scope, await threads.find(tx, scope, thread_id), task_key=task_key, limit=limit)


async def read_newest(tx: Tx, scope: Scope, thread: Thread, *, task_key: str, limit: int) -> AttemptPage:
    """The newest attempts at a task, or (empty ``task_key``) at all tasks, of a thread that was found in this
    transaction."""
    of = {**of_thread(scope, thread.thread_uid), **({"task_key": task_key} if task_key else {})}
    rows = await tx.all(_newest(bool(task_key)), **of, page_size=limit)
    # A page that is not full has all there are.
    if len(rows) < limit:
        total = len(rows)
    else:
        total = await tx.scalar(_count(bool(task_key)), **of)
    found = sorted((Attempt(*row) for row in rows), key=lambda each: (each.task_key, each.attempt))
    return AttemptPage(found, total)
