"""The runs of agents while they run: start, update, complete and cancel.

A run that starts has a lease, which each update renews. Anybody who may write can cancel a run: it ends at once, and
its holder learns of it at the next update.
"""

import contextlib
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import show_masked
from layerlore.memory.rules.validation import check_id, write_exact_json
from layerlore.memory.usage.usage_answers import Usage
from layerlore.memory.work import pending_calls
from layerlore.memory.work.pending_calls import hand_over, show_answers
from layerlore.memory.work.runs import check_claim, describe_run, find_taken, mask_reason, record
from layerlore.memory.work.steps import PreparedSteps, prepare_steps, store_steps
from layerlore.memory.work.work_answers import CancelledRun, EndedRun, StartedRun, UpdatedRun
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.json_text import list_of, to_json
from layerlore.storage.core.records import Scope, StoredJson, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import threads
from layerlore.storage.work import runs
from layerlore.storage.work.runs import NO_ANSWERS, Answers, Checkpoint, Ending, Run, RunClaim, RunContent, RunEnd


@dataclass(frozen=True, slots=True)
class Start:
    """The arguments of start_run. An empty ``run_id`` is made up. ``state`` counts only if ``has_state``, as in all of
    them: null is a state, too."""

    run_id: str = ""
    state: Any = None
    has_state: bool = False
    workflow_id: str = ""
    metadata: StoredJson = field(default_factory=dict)
    parent_run_id: str = ""


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """The arguments of update_run; None changes nothing."""

    run_id: str
    claim: str
    state: Any = None
    has_state: bool = False
    pending_tool_calls: Any = None
    metadata: StoredJson | None = None
    steps: Any = None


@dataclass(frozen=True, slots=True)
class Completion:
    """The arguments of complete_run. Without a ``claim`` it records a run that ran elsewhere, with what describes it;
    with one, only ``steps`` and ``output`` (None: none) count."""

    run_id: str
    claim: str
    status: Ending = "completed"
    output: Any = None
    workflow_id: str = ""
    metadata: StoredJson = field(default_factory=dict)
    parent_run_id: str = ""
    steps: Any = None


class _StepsOfCall(TypedDict, total=False):
    """The steps that a call brought, and all secrets that were masked in it."""

    first: int
    last: int
    events: int
    masked: int
    usage: Usage


class _StoredUpdate(_StepsOfCall):
    """The answer of an update, as a repeated request gets it: ``answers`` counts the answers to pending calls."""

    run_id: str
    thread_id: str
    status: Literal["running", "cancelled"]
    claimed_until: NotRequired[str]
    answers: NotRequired[int]


async def start_run(
    engine: Engine, scope: Scope, thread_id: str, given: Start, *, lease_seconds: int, sent: WriteRequest
) -> StartedRun:
    """Make a run that runs, in the thread (made if absent), held by its caller.

    Returns ``run_id``, ``thread_id``, ``status``, ``claim``, ``claimed_until``, ``masked``. Raises InvalidInput,
    LimitExceeded, Conflict for an id that is in use, NotFound for the parent.
    """
    run_id, claim_name = given.run_id or engine.new_id(), engine.new_id()
    described, masked = await describe_run(engine, run_id, given.workflow_id, given.metadata, [])
    if given.has_state:
        described = replace(described, state=await _write_state(engine, given.state))
    now, new_uid = engine.now(), engine.new_id()
    token = pending_calls.make_claim_token(0, claim_name)

    async def write(tx: Tx) -> StartedRun:
        # This look takes no lock and only gives a better error; ``create`` below decides.
        with contextlib.suppress(NotFound):
            pending_calls.refuse_taken(await runs.find(tx, scope, run_id))
        parent = await _find_parent(tx, scope, given.parent_run_id, run_id)
        thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, now)
        claim = RunClaim(0, token, sent.origin.actor, now, now + lease_seconds * 1000)
        if not await runs.create(tx, scope, thread, run_id, described, now=now, claim=claim, parent_run_id=parent):
            pending_calls.refuse_taken(await find_taken(tx, scope, thread, run_id))
        await record(tx, scope, thread, "run_started", {"run_id": run_id}, sent.origin, now)
        return {
            "run_id": run_id,
            "thread_id": thread.thread_id,
            "status": "running",
            "claim": token,
            "claimed_until": iso(claim.until),
            **show_masked(masked),
        }

    # A repeated idempotency key with other arguments than these is a conflict.
    arguments = [
        *(given.run_id, given.state, given.has_state, given.workflow_id, given.metadata),
        *(given.parent_run_id, lease_seconds),
    ]
    return await engine.write(scope, sent, arguments, now, write)


async def update_run(
    engine: Engine, scope: Scope, given: RunUpdate, *, lease_seconds: int, sent: WriteRequest
) -> UpdatedRun:
    """Renew a run's lease, by its holder, and store what is new: state, pending tool calls, metadata (replaced as a
    whole), steps. Without any of these it is a heartbeat.

    Returns ``run_id``, ``thread_id``, ``status``, ``claimed_until``, ``resumed`` (all answers to pending calls), the
    answer of ``record_steps``, ``masked``. A run that was cancelled meanwhile has the status ``cancelled``,
    ``ended_by`` and ``reason``: its steps are stored, nothing else is.

    Raises InvalidInput, LimitExceeded, Conflict (who took the run over), NotFound.
    """
    check_claim(engine, given.claim)
    if given.pending_tool_calls is None:
        calls = []
    else:
        calls = given.pending_tool_calls
    described, masked = await describe_run(engine, given.run_id, "", given.metadata or {}, calls)
    if given.has_state:
        described = replace(described, state=await _write_state(engine, given.state))
    if given.steps is None:
        steps = None
    else:
        steps = await prepare_steps(engine, given.steps, "", run_id=given.run_id)
    now = engine.now()
    until = now + lease_seconds * 1000

    async def write(tx: Tx) -> _StoredUpdate:
        run, thread = await runs.lock(tx, scope, given.run_id)
        answer: _StoredUpdate = {"run_id": run.run_id, "thread_id": run.thread_id, "status": "cancelled"}
        # The holder of a cancelled run may still store its steps, and nothing else.
        if not pending_calls.is_told(run, given.claim):
            pending_calls.check_holder(run, given.claim)
            changed, told_of = await _change(tx, scope, run, given, described, until, now)
            if changed:
                await record(tx, scope, thread, "run_updated", {"run_id": run.run_id}, sent.origin, now)
            answer["status"] = "running"
            answer["claimed_until"] = iso(until)
            if told_of:
                answer["answers"] = told_of
        return {**answer, **await _store_steps(tx, scope, thread, run, steps, masked, sent, now)}

    arguments = [
        *(given.run_id, given.claim, given.state, given.has_state, given.pending_tool_calls, given.metadata),
        *(lease_seconds, steps.sent if steps else None),
    ]
    answer = await engine.write(scope, sent, arguments, now, write)
    return await _show_content(engine, scope, answer)


async def _change(
    tx: Tx, scope: Scope, run: Run, given: RunUpdate, described: Checkpoint, until: int, now: int
) -> tuple[bool, int]:
    """Renew the lease and store what is new. Returns whether anything but the lease changed, and how many answers to
    pending calls there were."""
    answers, new = NO_ANSWERS, 0
    if run.answered != "[]":
        answers, new = hand_over(Answers((await runs.content(tx, scope, run)).resumed, run.answered))
    replaced = given.pending_tool_calls is not None and described.pending != run.pending
    changed = given.has_state or replaced or given.metadata is not None
    # A heartbeat writes the lease alone, and leaves the large checkpoint untouched.
    if not changed and not new:
        await runs.renew(tx, scope, run, until=until)
        return False, len(list_of(answers.brought))
    stored = replace(
        described,
        workflow_id=run.workflow_id,
        metadata=run.metadata if given.metadata is None else described.metadata,
        pending=described.pending if replaced else run.pending,
    )
    told = answers.brought
    if replaced:  # what is handed over now is not lost with the calls that it answers
        if new:
            answers = Answers(answers.brought)
        else:
            answers = NO_ANSWERS
    await runs.change(tx, scope, run, stored, answers=answers, until=until, now=now)
    return changed, len(list_of(told))


async def _show_content(engine: Engine, scope: Scope, stored: _StoredUpdate) -> UpdatedRun:
    """The answer with what a repeated request is not kept with: answers to calls, and who cancelled the run."""
    count = stored.pop("answers", 0)
    answer = cast("UpdatedRun", stored)
    if not count and answer["status"] != "cancelled":
        return answer

    async def read(tx: Tx, scope: Scope) -> tuple[Run, RunContent]:
        run = await runs.find(tx, scope, answer["run_id"])
        return run, await runs.content(tx, scope, run)

    run, content = await engine.database.read(read, scope)
    if count:
        # Answers that came after the first request do not belong to its answer.
        answer["resumed"] = show_answers(content.resumed)[:count]
        return answer
    if run.ended_by:
        answer["ended_by"] = run.ended_by
    if run.reason:
        answer["reason"] = run.reason
    return answer


async def complete_run(
    engine: Engine, scope: Scope, thread_id: str, given: Completion, *, sent: WriteRequest
) -> EndedRun:
    """End a run, by its holder: the checkpoint is removed for good, the output stays. Without a claim: record a run
    that ran elsewhere and has ended, in the thread (made if absent).

    The same sent again is ``unchanged``. The holder of a run that was cancelled may still bring its output, with the
    status ``cancelled``. Returns ``run_id``, ``thread_id``, ``status``, the answer of ``record_steps``, and ``masked``.
    Raises InvalidInput, LimitExceeded, Conflict, NotFound.
    """
    check_claim(engine, given.claim)
    described, masked = await describe_run(engine, given.run_id, given.workflow_id, given.metadata, [])
    if given.claim and (given.workflow_id or given.metadata or given.parent_run_id):
        raise InvalidInput(
            "workflow_id, metadata, parent_run_id: only where complete_run makes the run, without a claim"
        )
    kept = None
    if given.output is not None:
        # The limit is one of what the caller sent, so it is checked before masking.
        await write_exact_json(given.output, "output", engine.limits.run_data_bytes, engine.limits)
        entered, in_output = engine.masked(given.output)
        kept, masked = to_json(entered), masked + in_output
    if given.steps is None:
        steps = None
    else:
        steps = await prepare_steps(engine, given.steps, "", run_id=given.run_id)
    now, new_uid = engine.now(), engine.new_id()
    end = RunEnd(given.status, kept, sent.origin.actor)

    async def write(tx: Tx) -> EndedRun:
        happened = f"run_{given.status}"
        try:
            run, thread = await runs.lock(tx, scope, given.run_id)
        except NotFound:
            if given.claim:
                raise
            # Without a claim, this call records a run that ran elsewhere.
            parent = await _find_parent(tx, scope, given.parent_run_id, given.run_id)
            thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, now)
            made = await runs.create(tx, scope, thread, given.run_id, described, now=now, end=end, parent_run_id=parent)
            run = await find_taken(tx, scope, thread, given.run_id)
            if not made:
                pending_calls.refuse_taken(run)
        else:
            if await _has_ended_so(tx, scope, run, given, kept):
                return {**_show_ended(run, given.status, masked), "unchanged": True}
            if await _brings_late_output(tx, scope, run, given, kept):
                happened = "run_updated"
                # Only the output is new: who cancelled the run, and why, stays.
                await runs.finish(tx, scope, run, replace(end, by=run.ended_by, reason=run.reason), now=now)
            else:
                pending_calls.check_holder(run, given.claim)
                await runs.finish(tx, scope, run, end, now=now)
        await record(tx, scope, thread, happened, {"run_id": given.run_id}, sent.origin, now)
        stored = await _store_steps(tx, scope, thread, run, steps, masked, sent, now)
        return {**_show_ended(run, given.status, masked), **stored}

    arguments = [
        *(given.run_id, given.claim, given.status, given.output, given.workflow_id, given.metadata),
        *(given.parent_run_id, steps.sent if steps else None),
    ]
    return await engine.write(scope, sent, arguments, now, write)


async def _has_ended_so(tx: Tx, scope: Scope, run: Run, given: Completion, kept: str | None) -> bool:
    """Whether the run has ended just so, by this claim or made by a call without one."""
    if run.status != given.status or given.claim != (run.claim or ""):
        return False
    return (await runs.content(tx, scope, run)).output == kept


async def _brings_late_output(tx: Tx, scope: Scope, run: Run, given: Completion, kept: str | None) -> bool:
    """Whether the holder of a run that was cancelled brings its output, which it had not."""
    if kept is None or given.status != "cancelled" or not pending_calls.is_told(run, given.claim):
        return False
    return (await runs.content(tx, scope, run)).output is None


async def cancel_run(engine: Engine, scope: Scope, run_id: str, reason: str, *, sent: WriteRequest) -> CancelledRun:
    """End a run that waits or runs, with or without its holder: the checkpoint is removed for good. Its holder, if it
    has one, learns of it at the next call.

    A run that is cancelled already is ``unchanged``. Returns ``run_id``, ``thread_id``, ``status``, ``was`` (running or
    suspended), ``masked``. Raises LimitExceeded, Conflict for a run that has ended otherwise or expired, NotFound.
    """
    check_id(run_id, "run_id", engine.limits.id_chars)
    kept, masked = mask_reason(engine, reason)
    now = engine.now()

    async def write(tx: Tx) -> CancelledRun:
        run, thread = await runs.lock(tx, scope, run_id)
        answer: CancelledRun = {"run_id": run_id, "thread_id": run.thread_id, "status": "cancelled"}
        if run.status == "cancelled":
            return {**answer, "unchanged": True}
        pending_calls.check_open(run, now)
        assert run.status in ("running", "suspended")
        await runs.finish(tx, scope, run, RunEnd("cancelled", None, sent.origin.actor, kept), now=now)
        await record(tx, scope, thread, "run_cancelled", {"run_id": run_id}, sent.origin, now)
        return {**answer, "was": run.status, **show_masked(masked)}

    return await engine.write(scope, sent, [run_id, reason], now, write)


async def _write_state(engine: Engine, state: Any) -> str:
    return await write_exact_json(state, "state", engine.limits.run_state_bytes, engine.limits)


async def _find_parent(tx: Tx, scope: Scope, parent_run_id: str, run_id: str) -> str | None:
    if not parent_run_id:
        return None
    if parent_run_id == run_id:
        raise InvalidInput("parent_run_id: a run is not its own parent; leave it out")
    return (await runs.find(tx, scope, parent_run_id)).run_id


async def _store_steps(
    tx: Tx,
    scope: Scope,
    thread: Thread,
    run: Run,
    steps: PreparedSteps | None,
    masked: int,
    sent: WriteRequest,
    now: int,
) -> _StepsOfCall:
    """Store the steps of a call, if it has any. Returns the answer's part about them and about all that was masked."""
    if steps is None:
        return {**show_masked(masked)}
    stored = await store_steps(tx, scope, thread, steps, origin=sent.origin, now=now, run_id=run.run_id)
    both = masked + stored.get("masked", 0)
    return {**stored, **show_masked(both)}


def _show_ended(run: Run, status: Ending, masked: int) -> EndedRun:
    return {"run_id": run.run_id, "thread_id": run.thread_id, "status": status, **show_masked(masked)}
