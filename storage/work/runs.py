"""Runs of agents, and the checkpoint of each that is suspended.

A run's id is its scope's, not its thread's: who resumes it need not know the thread. Whoever changes a run holds its
thread. What a run's rules allow is for the caller to check, between ``lock`` and the change.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import Update, bindparam, select, update

from layerlore.storage.core.damaged_values import object_of
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, Scope, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import insert_or_ignore
from layerlore.storage.core.tables import runs
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.threads import threads

Status = Literal["running", "suspended", "completed", "failed", "cancelled"]
Ending = Literal["completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Run:
    """A run without its content. ``pending`` is JSON text. ``claim`` and who had it stay when the run is suspended
    again or ends: a holder who lost the answer is known by it. ``workflow_id`` is empty where there is none."""

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


class RunContent(NamedTuple):
    """What may be large, as JSON text: the state (None once the run has ended), what resumers brought, the output."""

    state: str | None
    resumed: str
    output: str | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a suspension stores. ``state`` and ``pending`` are JSON text, kept to the byte."""

    state: str
    pending: str
    workflow_id: str
    metadata: Json
    reason: str | None
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class RunClaim:
    """Who holds a run, and until when; ``token`` is the claim's own name, never given twice."""

    epoch: int
    token: str
    holder: str
    at: int
    until: int


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
_CONTENT = select(runs.c.state, runs.c.resumed, runs.c.output).where(in_thread(runs), _named)

_CHECKPOINT = ("workflow_id", "metadata", "state", "pending", "reason", "expires_at")
_CREATE = insert_or_ignore(
    runs,
    {
        **{name: bindparam(name) for name in ("tenant_id", "agent_id", "resource_id", "thread_uid", "run_id")},
        **{name: bindparam(f"new_{name}") for name in _CHECKPOINT},
        "status": "suspended",
        "resumed": "[]",
        "epoch": 0,
        "created_at": bindparam("now"),
        "updated_at": bindparam("now"),
    },
)


def _change(**values: Any) -> Update:
    return update(runs).where(in_thread(runs), _named).values(**values, updated_at=bindparam("now"))


_SUSPEND = _change(
    status="suspended",
    resumed="[]",
    **{name: bindparam(f"new_{name}") for name in _CHECKPOINT},
)
_CLAIM = _change(
    status="running",
    **{
        name: bindparam(f"new_{name}")
        for name in ("resumed", "epoch", "claim", "claimed_by", "claimed_at", "claimed_until")
    },
)
_FINISH = _change(
    status=bindparam("new_status"),
    output=bindparam("new_output"),
    state=None,
    pending="[]",
    resumed="[]",
    reason=None,
    expires_at=None,
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
    seen = await find(tx, scope, run_id)
    try:
        thread = await threads.lock(tx, scope, seen.thread_id)
    except NotFound:  # deleted meanwhile
        raise _unknown(run_id) from None
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
    """What a run holds. Raises NotFound."""
    row = await tx.one(_CONTENT, **of_thread(scope, run.thread_uid), run_id=run.run_id)
    if row is None:
        raise _unknown(run.run_id)
    return RunContent(*row)


async def create(tx: Tx, scope: Scope, thread: Thread, run_id: str, checkpoint: Checkpoint, *, now: int) -> bool:
    """Add a suspended run to a thread that the transaction holds. False when the id is taken in the scope, be it by a
    run that nobody sees since its thread is deleted."""
    of = of_thread(scope, thread.thread_uid)
    return bool(await tx.run(_CREATE, **of, **_stored(checkpoint), run_id=run_id, now=now))


async def is_hidden(tx: Tx, scope: Scope, run_id: str) -> bool:
    """Whether there is such a run, of a deleted thread."""
    return await tx.one(_HIDDEN, **of_scope(scope), run_id=run_id) is not None


async def suspend(tx: Tx, scope: Scope, run: Run, checkpoint: Checkpoint, *, now: int) -> None:
    """Suspend a run that is held: the checkpoint replaces the one before, and what resumers brought to that."""
    await tx.run(_SUSPEND, **of_thread(scope, run.thread_uid), **_stored(checkpoint), run_id=run.run_id, now=now)


async def claim(tx: Tx, scope: Scope, run: Run, claim: RunClaim, *, resumed: str, now: int) -> None:
    """Give a run that is held to whoever resumes it; ``resumed`` is all that resumers brought, as JSON text."""
    await tx.run(
        _CLAIM,
        **of_thread(scope, run.thread_uid),
        run_id=run.run_id,
        new_resumed=resumed,
        new_epoch=claim.epoch,
        new_claim=claim.token,
        new_claimed_by=claim.holder,
        new_claimed_at=claim.at,
        new_claimed_until=claim.until,
        now=now,
    )


async def finish(tx: Tx, scope: Scope, run: Run, ending: Ending, *, output: str | None, now: int) -> None:
    """End a run that is held; its checkpoint is removed, and ``output`` (JSON text) stays."""
    of = of_thread(scope, run.thread_uid)
    await tx.run(_FINISH, **of, run_id=run.run_id, new_status=ending, new_output=output, now=now)


def _stored(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "new_workflow_id": checkpoint.workflow_id,
        "new_metadata": to_json(checkpoint.metadata),
        "new_state": checkpoint.state,
        "new_pending": checkpoint.pending,
        "new_reason": checkpoint.reason,
        "new_expires_at": checkpoint.expires_at,
    }
