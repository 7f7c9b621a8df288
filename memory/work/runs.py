"""The runs of agents that wait: suspend, resume and expire; ``running`` has the others.

The state and the data that answers bring are stored exactly as given: they are not masked, not indexed, and whole only
for who resumes the run. In pending tool calls secrets are masked, as they are in whatever describes a run.
"""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import TypedDict

from layerlore.memory.engine import journal_lines
from layerlore.memory.engine.engine import Engine, WriteRequest, work_on_long_text
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import order_keys, show_masked
from layerlore.memory.rules.validation import (
    check_id,
    check_metadata,
    check_new_id,
    check_number,
    check_text,
    write_exact_json,
)
from layerlore.memory.work import pending_calls
from layerlore.memory.work.pending_calls import (
    CallAnswer,
    CheckedAnswer,
    append_answer,
    check_answers,
    check_unchanged,
    hand_over,
    keep_unseen,
    show_answers,
)
from layerlore.memory.work.work_answers import ResumedRun, SuspendedRun
from layerlore.storage.core.errors import Conflict, LimitExceeded, NotFound
from layerlore.storage.core.json_text import calls_of, intact, to_json
from layerlore.storage.core.records import DAY_MS, Json, Origin, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.removal import retention
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent
from layerlore.storage.work import runs
from layerlore.storage.work.runs import NO_ANSWERS, Answers, Checkpoint, Run, RunClaim, RunContent

MOST_TTL_SECONDS = 3650 * DAY_MS // 1000

_MAINTENANCE = Origin("maintenance", "", "server")
_EXPIRY = Origin("maintenance", "expire_runs", "server")


@dataclass(frozen=True, slots=True)
class Suspension:
    """The arguments of suspend_run. A run that was suspended before keeps its ``workflow_id`` and ``metadata`` where
    they are empty. ``claim`` is empty for a new run."""

    run_id: str
    state: Any
    workflow_id: str = ""
    metadata: Json = field(default_factory=dict)
    pending_tool_calls: Any = field(default_factory=list)
    reason: str = ""
    ttl_seconds: int | None = None
    claim: str = ""


async def suspend_run(
    engine: Engine, scope: Scope, thread_id: str, given: Suspension, *, sent: WriteRequest
) -> SuspendedRun:
    """Store a checkpoint: of a new run, in the thread (made if absent), or of a running one, by its holder.

    The same suspension sent again by who made it is ``unchanged``. Returns ``run_id``, ``thread_id``, ``status``,
    ``expires_at`` where there is a time to live, and in ``masked`` how many secrets were masked in pending tool calls,
    metadata, reason and workflow id.

    Raises InvalidInput, LimitExceeded, Conflict, NotFound.
    """
    checkpoint, masked = await _make_checkpoint(engine, given)
    now, new_uid = engine.now(), engine.new_id()
    if given.ttl_seconds is not None:
        checkpoint = replace(checkpoint, expires_at=now + given.ttl_seconds * 1000)

    async def write(tx: Tx) -> SuspendedRun:
        try:
            run, thread = await runs.lock(tx, scope, given.run_id)
        except NotFound:
            if given.claim:
                raise
            thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, now)
            if await runs.create(tx, scope, thread, given.run_id, checkpoint, now=now):
                await record(tx, scope, thread, "run_suspended", {"run_id": given.run_id}, sent.origin, now)
                return _show_suspended(given.run_id, thread, checkpoint.expires_at, masked)
            run = await find_taken(tx, scope, thread, given.run_id)
        pending_calls.check_kept(run, now)
        # Left out, these stay as the earlier suspension set them.
        again = replace(
            checkpoint,
            workflow_id=checkpoint.workflow_id or run.workflow_id,
            metadata=checkpoint.metadata or run.metadata,
        )
        here = sent.thread in ("", run.thread_id)
        if here and given.claim in ("", run.claim) and await _is_stored(tx, scope, run, again):
            return {**_show_suspended(run.run_id, thread, run.expires_at, masked), "unchanged": True}
        pending_calls.check_holder(run, given.claim)
        if not here:
            raise Conflict(f"run {run.run_id!r} belongs to thread {run.thread_id!r}: leave thread_id out, or give that")
        unseen = NO_ANSWERS
        # Answers that came in while the run was running, and that its runner never saw, wait for the next one.
        if run.answered != "[]":
            brought = (await runs.content(tx, scope, run)).resumed
            unseen = keep_unseen(Answers(brought, run.answered), calls_of(again.pending))
        await runs.suspend(tx, scope, run, again, now=now, answers=unseen)
        await record(tx, scope, thread, "run_suspended", {"run_id": run.run_id}, sent.origin, now)
        return _show_suspended(run.run_id, thread, again.expires_at, masked)

    arguments = [
        *(given.run_id, given.state, given.workflow_id, given.metadata, given.pending_tool_calls),
        *(given.reason, given.ttl_seconds, given.claim),
    ]
    return await engine.write(scope, sent, arguments, now, write)


async def _make_checkpoint(engine: Engine, given: Suspension) -> tuple[Checkpoint, int]:
    """Check and mask a suspension. Returns the checkpoint without its expiry, and how many secrets were masked."""
    check_number(given.ttl_seconds, "ttl_seconds", 1, MOST_TTL_SECONDS, ", or left out")
    check_claim(engine, given.claim)
    state = await write_exact_json(given.state, "state", engine.limits.run_state_bytes, engine.limits)
    reason, in_reason = mask_reason(engine, given.reason)
    described, masked = await describe_run(
        engine, given.run_id, given.workflow_id, given.metadata, given.pending_tool_calls
    )
    return replace(described, state=state, reason=reason), masked + in_reason


async def describe_run(
    engine: Engine, run_id: str, workflow_id: str, metadata: Json, pending_tool_calls: Any
) -> tuple[Checkpoint, int]:
    """Check and mask what describes a run. Returns it as a checkpoint without a state, and how many secrets were masked.

    Raises InvalidInput, LimitExceeded.
    """
    limits = engine.limits
    check_new_id(run_id, "run_id", limits.id_chars)
    if workflow_id:
        check_new_id(workflow_id, "workflow_id", limits.id_chars)
    check_metadata(metadata, "metadata", limits)
    pending, in_calls = "[]", 0
    if pending_tool_calls != []:
        pending = await write_exact_json(pending_tool_calls, "pending_tool_calls", limits.run_pending_bytes, limits)
        # Checking the schemas of the calls may take a while, so it runs in a thread.
        await asyncio.to_thread(pending_calls.check_calls, pending_tool_calls, limits)
        calls, in_calls = await work_on_long_text(engine.masked, pending_tool_calls)
        # Other calls stay exactly as they were sent.
        if in_calls:
            pending = to_json(calls)
    workflow_id, in_workflow = engine.masked(workflow_id)
    metadata, in_metadata = engine.masked(metadata)
    return Checkpoint(None, pending, workflow_id, metadata, None, None), in_calls + in_workflow + in_metadata


def check_claim(engine: Engine, claim: str) -> None:
    """Refuses a claim that can be none. Raises InvalidInput."""
    if claim:
        check_id(claim, "claim", engine.limits.id_chars)


def mask_reason(engine: Engine, reason: str) -> tuple[str | None, int]:
    """The reason as it is stored, None for an empty one, and how many secrets were masked. Raises LimitExceeded."""
    size = len(check_text(reason, "reason").encode())
    if size > engine.limits.metadata_bytes:
        raise LimitExceeded(f"reason: {size:,} bytes; at most {engine.limits.metadata_bytes:,} are allowed")
    kept, masked = engine.masked(reason)
    return kept or None, masked


async def find_taken(tx: Tx, scope: Scope, thread: Thread, run_id: str) -> Run:
    """Find the run that already has the id of a new one: another call made it in this thread meanwhile.

    Raises Conflict for one that is anywhere else.
    """
    # The thread may come back together with its run, so the id is still in use.
    if await runs.is_hidden(tx, scope, run_id):
        raise Conflict(
            f"run_id: {run_id!r} belongs to a run of a deleted thread, which can still be restored; use another run_id"
        )
    try:
        return await runs.lock_run(tx, scope, thread, run_id)
    except NotFound:
        raise Conflict(f"run {run_id!r} was made by another call at this moment; get_run shows it") from None


async def _is_stored(tx: Tx, scope: Scope, run: Run, checkpoint: Checkpoint) -> bool:
    """Whether the run is suspended with just this checkpoint."""
    if run.status != "suspended" or (run.workflow_id, run.reason) != (checkpoint.workflow_id, checkpoint.reason):
        return False
    if (to_json(run.metadata), run.pending) != (to_json(checkpoint.metadata), checkpoint.pending):
        return False
    # The state is large, so it is read and compared last.
    return (await runs.content(tx, scope, run)).state == checkpoint.state


def _show_suspended(run_id: str, thread: Thread, expires_at: int | None, masked: int) -> SuspendedRun:
    answer: SuspendedRun = {"run_id": run_id, "thread_id": thread.thread_id, "status": "suspended"}
    if expires_at is not None:
        answer["expires_at"] = iso(expires_at)
    return {**answer, **show_masked(masked)}


@dataclass(frozen=True, slots=True)
class ResumeData:
    """Resume data and the tool call it is for (empty: none is named)."""

    data: Any
    tool_call_id: str = ""


class _Claim(TypedDict):
    claim: str


async def resume_run(
    engine: Engine, scope: Scope, run_id: str, brought: ResumeData | None, *, lease_seconds: int, sent: WriteRequest
) -> ResumedRun:
    """Take a suspended run, or a running one whose claim has run out, and get its checkpoint.

    Returns the run with ``state`` (if one was ever stored), ``pending_tool_calls``, ``resumed`` (all answers to them),
    and the ``claim`` that its holder needs to suspend or end it, good until ``claimed_until`` and after that until
    another caller resumes the run. The state stays until the run ends.

    Raises InvalidInput, LimitExceeded, Conflict (who holds it, since when, until when), NotFound.
    """
    check_id(run_id, "run_id", engine.limits.id_chars)
    pending, checked = "", list[CheckedAnswer]()
    if brought:
        given = [CallAnswer(brought.tool_call_id, brought.data)]
        pending, checked = await check_answers(engine, scope, run_id, given)
    now, claim_name = engine.now(), engine.new_id()

    async def write(tx: Tx) -> _Claim:
        run, thread = await runs.lock(tx, scope, run_id)
        pending_calls.check_resumable(run, now)
        answers = Answers((await runs.content(tx, scope, run)).resumed, run.answered)
        if brought:
            check_unchanged(run, pending)
        for each in checked:
            answers = append_answer(engine, answers, each, by=sent.origin.actor, now=now)
        epoch = run.epoch + 1
        claim = RunClaim(
            epoch, pending_calls.make_claim_token(epoch, claim_name), sent.origin.actor, now, now + lease_seconds * 1000
        )
        # The resumer gets all answers now, so they count as seen.
        await runs.claim(tx, scope, run, claim, answers=hand_over(answers)[0], now=now)
        if checked and checked[0].tool_call_id:
            about = {"tool_call_id": checked[0].tool_call_id}
        else:
            about = {}
        await record(tx, scope, thread, "run_resumed", {"run_id": run_id, **about}, sent.origin, now)
        return {"claim": claim.token}

    arguments = [run_id, [brought.data, brought.tool_call_id] if brought else None, lease_seconds]
    token = (await engine.write(scope, sent, arguments, now, write))["claim"]

    # The kept answer holds only the claim, so a repeated request reads the content again.
    async def read(tx: Tx, scope: Scope) -> tuple[Run, RunContent]:
        run = await runs.find(tx, scope, run_id)
        # A request that was sent again gets its claim again as long as that is worth something.
        pending_calls.check_holder(run, token)
        return run, await runs.content(tx, scope, run)

    return _show_resumed(*await engine.database.read(read, scope))


def _show_resumed(run: Run, content: RunContent) -> ResumedRun:
    assert run.status == "running"
    assert run.claim is not None
    assert run.claimed_until is not None
    answer: ResumedRun = {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "status": run.status,
        "claim": run.claim,
        "claimed_until": iso(run.claimed_until),
        "pending_tool_calls": calls_of(run.pending),
        "resumed": show_answers(content.resumed),
    }
    if run.workflow_id:
        answer["workflow_id"] = run.workflow_id
    if run.metadata:
        answer["metadata"] = run.metadata
    if run.reason:
        answer["reason"] = run.reason
    if run.expires_at is not None:
        answer["expires_at"] = iso(run.expires_at)
    if content.state is not None:
        answer["state"] = intact(content.state, f"the state of run {run.run_id!r}")
    return order_keys(ResumedRun, answer)


async def expire_runs(engine: Engine) -> int:
    """Remove the runs whose checkpoint has expired, except those with a holder. Returns how many."""
    now, removed, after = engine.now(), 0, retention.FIRST

    async def write(tx: Tx, scope: Scope) -> int:
        expired = await runs.expire(tx, scope, now=now)
        for each in expired:
            await record(tx, scope, each.thread, "run_expired", {"run_id": each.run_id}, _MAINTENANCE, now)
        await journal_lines.append_count(tx, scope, engine.hmac_key, _EXPIRY, "runs", len(expired), now)
        return len(expired)

    while scopes := await engine.database.read_installation(retention.with_expired_runs, now, after=after):
        for after in scopes:
            # A scope may have more expired runs than one transaction takes.
            while batch := await engine.database.write(write, after):
                removed += batch
    return removed


async def record(tx: Tx, scope: Scope, thread: Thread, type_: str, payload: Json, origin: Origin, now: int) -> None:
    """Record what happened to a run, in its thread's log."""
    await events.record(tx, scope, thread, [NewEvent(type_, payload)], origin=origin, now=now)
