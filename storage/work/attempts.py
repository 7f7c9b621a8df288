"""The iteration log: what was tried at a task of a thread, and how it ended. Rows are only ever added."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, func, insert, select

from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.tables import attempts
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import threads


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """What was tried and how it ended; with an error it failed."""

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
_INSERT = insert(attempts).values(
    **{name: bindparam(name) for name in ("tenant_id", "agent_id", "resource_id", "thread_uid", *_WRITTEN)}
)


async def log(
    tx: Tx, scope: Scope, thread_id: str, tried: NewAttempt, *, new_uid: str, now: int
) -> tuple[Thread, Attempt]:
    """Add an attempt to its task's log; numbers count from 1, without a gap. The thread is made if it is absent."""
    thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, now)
    of = of_thread(scope, thread.thread_uid)
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
    await tx.run(_INSERT, **of, **{name: getattr(logged, name) for name in _WRITTEN})
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
    return query.where(_of_task) if of_one_task else query


async def read_page(tx: Tx, scope: Scope, thread_id: str, *, task_key: str, limit: int) -> AttemptPage:
    """The newest attempts at a task, or (empty ``task_key``) at all tasks of a thread. Raises NotFound."""
    return await read_newest(tx, scope, await threads.find(tx, scope, thread_id), task_key=task_key, limit=limit)


async def read_newest(tx: Tx, scope: Scope, thread: Thread, *, task_key: str, limit: int) -> AttemptPage:
    """The newest attempts at a task, or (empty ``task_key``) at all tasks, of a thread that was found in this
    transaction."""
    of = {**of_thread(scope, thread.thread_uid), **({"task_key": task_key} if task_key else {})}
    rows = await tx.all(_newest(bool(task_key)), **of, page_size=limit)
    total = len(rows) if len(rows) < limit else await tx.scalar(_count(bool(task_key)), **of)
    found = sorted((Attempt(*row) for row in rows), key=lambda each: (each.task_key, each.attempt))
    return AttemptPage(found, total)
