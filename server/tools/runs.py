"""Tools about the runs of agents and their checkpoints."""

from typing import Annotated, Any, Literal

from pydantic import Field, SkipValidation, WithJsonSchema

from layerlore.memory.work.work_answers import (
    CancelledRun,
    DecidedRun,
    EndedRun,
    Ending,
    ResumedRun,
    RunDetail,
    RunPage,
    StartedRun,
    SuspendedRun,
    UpdatedRun,
)
from layerlore.server.tools.arguments import EMPTY_SAYS, NULL_SAYS, UNLISTED, Moment, parse_since, parse_until
from layerlore.server.tools.declaration import (
    ANY_JSON,
    OBJECT_OR_TEXT,
    Call,
    FreeObject,
    ThreadId,
    tool,
)
from layerlore.server.tools.steps import RawSteps
from layerlore.storage.core.errors import InvalidInput

AskedStatus = Literal["running", "suspended", "completed", "failed", "cancelled", "expired", "resumable"]

RunId = Annotated[str, Field(min_length=1)]

ClaimArgument = Annotated[str, Field(min_length=1, description="From start_run or resume_run.")]
Lease = Annotated[int, Field(ge=1, le=86_400)]

# Any JSON, as it was sent. The SDK reads JSON text in every argument that is not declared as plain `str`, and a state
# that is text must stay that text. Null and "" are values, too.
State = Annotated[str, SkipValidation, WithJsonSchema({**ANY_JSON, "description": "Comes back exactly so."})]
Data = Annotated[
    str,
    SkipValidation,
    EMPTY_SAYS,
    NULL_SAYS,
    WithJsonSchema({**ANY_JSON, "description": 'Such as {"approved": true}.'}),
]
LaterState = Annotated[str, SkipValidation, EMPTY_SAYS, NULL_SAYS, WithJsonSchema(ANY_JSON)]
UnlistedSteps = Annotated[RawSteps, UNLISTED]
UnlistedObject = Annotated[FreeObject, UNLISTED]
Output = Annotated[str, SkipValidation, WithJsonSchema(ANY_JSON)]

_CALLS: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "name": {"type": "string"},
            "arguments": OBJECT_OR_TEXT,
            "suspended": {"type": "boolean", "description": "false: done, with its result, or not begun."},
            "result": OBJECT_OR_TEXT,
            "suspend_payload": OBJECT_OR_TEXT,
            "resume_schema": {"type": "object", "description": "JSON Schema of the answer."},
        },
        "required": ["id"],
    },
}
PendingToolCalls = Annotated[Any, WithJsonSchema(_CALLS)]
_SHORT_CALLS = {
    "type": "array",
    "description": "As suspend_run takes them.",
    "items": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
}
NewPendingToolCalls = Annotated[Any, EMPTY_SAYS, WithJsonSchema(_SHORT_CALLS)]
Decisions = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "tool_call_id": {"type": "string", "description": "Needed if several wait."},
                    "decision": {"type": "string", "enum": ["answer", "approve", "deny"]},
                    "data": {**ANY_JSON, "description": "What its resume_schema asks for."},
                },
            },
        }
    ),
]


@tool("Start run", "runs", "write", answers=StartedRun)
async def start_run(
    call: Call,
    run_id: Annotated[str, Field(description="Left out: a new one.")] = "",
    workflow_id: str = "",
    parent_run_id: Annotated[str, Field(description="Whose sub-agent this is: usage counts there, too.")] = "",
    state: Annotated[LaterState, UNLISTED] = "",
    metadata: UnlistedObject = {},  # noqa: B006 - a default in a schema, never changed
    lease_seconds: Lease = 300,
    thread_id: ThreadId = "",
) -> StartedRun:
    """Record that a run begins. Its claim goes with every call that moves it; update_run renews it. After lease_seconds
    another may take the run with resume_run."""
    from layerlore.memory.work import run_changes

    given = run_changes.Start(run_id, state, "state" in call.given, workflow_id, metadata, parent_run_id)
    return await run_changes.start_run(
        call.engine, call.scope, call.thread(thread_id), given, lease_seconds=lease_seconds, sent=call.sent(thread_id)
    )


@tool("Update run", "runs", "write", answers=UpdatedRun, reduced="the status and the lease")
async def update_run(
    call: Call,
    run_id: RunId,
    claim: ClaimArgument,
    state: LaterState = "",
    pending_tool_calls: NewPendingToolCalls = None,
    lease_seconds: Lease = 300,
    steps: UnlistedSteps = None,
    metadata: UnlistedObject = {},  # noqa: B006 - a default in a schema, never changed
) -> UpdatedRun:
    """Renew the lease of a run that you run, and store what is new. Answers with decisions (resumed), and with the
    status cancelled after a cancel: stop then."""
    from layerlore.memory.work import run_changes

    # An empty list is a value: it removes the pending calls.
    has_calls = "pending_tool_calls" in call.given
    given = run_changes.RunUpdate(
        run_id,
        claim,
        state,
        "state" in call.given,
        pending_tool_calls if has_calls else None,
        metadata or None,
        steps,
    )
    return await run_changes.update_run(call.engine, call.scope, given, lease_seconds=lease_seconds, sent=call.sent())


@tool("Suspend run", "runs", "write", answers=SuspendedRun, idempotent=True)
async def suspend_run(
    call: Call,
    run_id: RunId,
    state: State,
    workflow_id: str = "",
    metadata: FreeObject = {},  # noqa: B006 - a default in a schema, never changed
    pending_tool_calls: PendingToolCalls = [],  # noqa: B006 - a default in a schema, never changed
    reason: str = "",
    ttl_seconds: Annotated[int | None, Field(description="Then the checkpoint expires; left out: never.")] = None,
    claim: Annotated[str, Field(description="Of a run that runs: from start_run or resume_run.")] = "",
    thread_id: ThreadId = "",
) -> SuspendedRun:
    """Store the checkpoint of a run that waits, for a person or for anything else, to be resumed later from any
    process. pending_tool_calls are the calls of the turn: those that wait, and those that are done or not begun."""
    from layerlore.memory.work import runs

    given = runs.Suspension(run_id, state, workflow_id, metadata, pending_tool_calls, reason, ttl_seconds, claim)
    # A run that is suspended again keeps its thread, whatever the current one is.
    if thread_id or not claim:
        thread = call.thread(thread_id)
    else:
        thread = ""
    return await runs.suspend_run(call.engine, call.scope, thread, given, sent=call.sent(thread_id))


@tool("Resume run", "runs", "write", answers=ResumedRun, largest_answer=500_000)
async def resume_run(
    call: Call,
    run_id: RunId,
    tool_call_id: Annotated[str, Field(description="The call that data is for, if several wait.")] = "",
    data: Data = "",
    lease_seconds: Lease = 300,
) -> ResumedRun:
    """Take a suspended run over, or one whose lease is over: of several who try, one gets it, with its state, the
    decisions (resumed) and a new claim. data answers a call at once: {"approved": true} or false."""
    from layerlore.memory.work import runs

    if "data" in call.given:
        answer = runs.ResumeData(data, tool_call_id)
    elif tool_call_id:
        raise InvalidInput("tool_call_id: says what data is for: give data, too, or leave both out")
    else:
        answer = None
    return await runs.resume_run(call.engine, call.scope, run_id, answer, lease_seconds=lease_seconds, sent=call.sent())


@tool("Decide run", "runs", "write", answers=DecidedRun, idempotent=True)
async def decide_run(call: Call, run_id: RunId, decisions: Decisions) -> DecidedRun:
    """Answer pending calls of a run without running it. approve and deny bring {"approved": true} or false, with data
    beside it; answer brings data alone. At waiting 0 the run can be resumed."""
    from layerlore.memory.work import pending_calls

    return await pending_calls.decide_run(call.engine, call.scope, run_id, decisions, sent=call.sent())


@tool("Complete run", "runs", "write", answers=EndedRun, destructive=True, idempotent=True)
async def complete_run(
    call: Call,
    run_id: RunId,
    claim: Annotated[str, Field(description="Left out: record a run that has run already.")] = "",
    status: Ending = "completed",
    output: Output = "",
    thread_id: ThreadId = "",
    steps: UnlistedSteps = None,
    workflow_id: Annotated[str, UNLISTED] = "",
    metadata: UnlistedObject = {},  # noqa: B006 - a default in a schema, never changed
    parent_run_id: Annotated[str, UNLISTED] = "",
) -> EndedRun:
    """End a run that you run. Its checkpoint is removed for good, its output kept."""
    from layerlore.memory.work import run_changes

    kept = None if output == "" else output
    given = run_changes.Completion(run_id, claim, status, kept, workflow_id, metadata, parent_run_id, steps)
    # A run with a claim has its thread already.
    if thread_id or not claim:
        thread = call.thread(thread_id)
    else:
        thread = ""
    return await run_changes.complete_run(call.engine, call.scope, thread, given, sent=call.sent(thread_id))


@tool("Cancel run", "runs", "write", answers=CancelledRun, destructive=True, idempotent=True)
async def cancel_run(call: Call, run_id: RunId, reason: str = "") -> CancelledRun:
    """End a run that waits or runs. Its agent learns of it at its next update_run. The checkpoint is removed."""
    from layerlore.memory.work import run_changes

    return await run_changes.cancel_run(call.engine, call.scope, run_id, reason, sent=call.sent())


@tool("Get run", "runs", "read", answers=RunDetail, largest_answer=500_000)
async def get_run(
    call: Call,
    run_id: RunId,
    with_state: Annotated[bool, Field(description="Its checkpoint, too, secrets masked.")] = False,
) -> RunDetail:
    """Read a run without taking it: status, pending calls, decisions, output, usage of its sub-agents and in all."""
    from layerlore.memory.work import run_lists

    return await run_lists.get_run(call.engine, call.scope, run_id, with_state=with_state)


@tool("List runs", "runs", "read", answers=RunPage, largest_answer=300_000)
async def list_runs(
    call: Call,
    status: Annotated[
        list[AskedStatus],
        Field(description="Only these; left out: all. resumable: nothing is missing but a runner."),
    ] = [],  # noqa: B006 - a default in a schema, never changed
    workflow_id: str = "",
    thread_id: Annotated[str, Field(description="Only of this conversation; left out: of all.")] = "",
    since: Annotated[Moment, Field(description="ISO 8601, of when it was made.")] = "",
    until: Annotated[Moment, Field(description="ISO 8601")] = "",
    metadata: Annotated[FreeObject, Field(description="Keys and values that must be equal.")] = {},  # noqa: B006
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    cursor: str = "",
) -> RunPage:
    """List runs, newest first, without their state. `next_cursor` continues a long list."""
    from layerlore.memory.work import run_lists

    request = run_lists.RunListing(
        statuses=list(status),
        workflow_id=workflow_id,
        thread_id=call.thread(thread_id, reads=True) if thread_id else "",
        since=parse_since(since) if since else None,
        until=parse_until(until) if until else None,
        metadata=metadata,
    )
    return await run_lists.list_runs(call.engine, call.scope, request, limit=limit, cursor=cursor)
