"""Tools about the runs of agents and their checkpoints."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, Field, SkipValidation, WithJsonSchema
from typing_extensions import TypedDict

from layerlore.memory.rules.validation import parse_time
from layerlore.server.process.late_modules import LateModule
from layerlore.server.tools.arguments import parse_until
from layerlore.server.tools.call import Call
from layerlore.server.tools.declaration import ANY_JSON, Answered, FreeObject, ThreadId, tool
from layerlore.server.tools.stored_content import Stored
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json

if TYPE_CHECKING:
    from layerlore.memory.work import run_lists, runs
else:
    run_lists = LateModule("layerlore.memory.work.run_lists")
    runs = LateModule("layerlore.memory.work.runs")

Status = Literal["running", "suspended", "completed", "failed", "cancelled"]
Ending = Literal["completed", "failed", "cancelled"]

RunId = Annotated[str, Field(min_length=1)]

# Any JSON, as it was sent: only what is declared as just `str` is not searched for JSON by the SDK, so that a state
# that is text stays that text.
State = Annotated[str, SkipValidation, WithJsonSchema({**ANY_JSON, "description": "Comes back exactly so."})]
Data = Annotated[str, SkipValidation, WithJsonSchema({**ANY_JSON, "description": 'Such as {"approved": true}.'})]
Output = Annotated[str, SkipValidation, WithJsonSchema(ANY_JSON)]

PendingToolCalls = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "tool_call_id": {"type": "string"},
                    "tool_name": {"type": "string"},
                    "suspended": {"type": "boolean"},
                    "suspend_payload": ANY_JSON,
                    "resume_schema": {"type": "object"},
                },
                "required": ["tool_call_id"],
            },
        }
    ),
]


def _listed(value: Any) -> Any:
    """One name may stand for a list of one."""
    return [value] if isinstance(value, str) else value


class SuspendedRun(TypedDict):
    run_id: str
    thread_id: str
    status: Literal["suspended"]
    expires_at: NotRequired[str]
    unchanged: NotRequired[bool]
    masked: NotRequired[int]


class Resumption(TypedDict):
    tool_call_id: NotRequired[str]
    data: Stored[Answered]
    at: str


class ResumedRun(TypedDict):
    run_id: str
    thread_id: str
    status: Literal["running"]
    workflow_id: NotRequired[Stored[str]]
    metadata: NotRequired[Stored[dict[str, Any]]]
    reason: NotRequired[Stored[str]]
    expires_at: NotRequired[str]
    claim: str
    claimed_until: str
    state: Stored[Answered]
    pending_tool_calls: Stored[Answered]
    resumed: list[Resumption]


class EndedRun(TypedDict):
    run_id: str
    thread_id: str
    status: Ending
    unchanged: NotRequired[bool]
    masked: NotRequired[int]


class WaitingCall(TypedDict):
    tool_call_id: str
    tool_name: NotRequired[Stored[str]]


class RunRow(TypedDict):
    run_id: str
    thread_id: str
    status: Status
    workflow_id: NotRequired[Stored[str]]
    metadata: NotRequired[Stored[dict[str, Any]]]
    reason: NotRequired[Stored[str]]
    waiting: NotRequired[list[WaitingCall]]
    claimed_by: NotRequired[str]
    claimed_at: NotRequired[str]
    claimed_until: NotRequired[str]
    expires_at: NotRequired[str]
    created_at: str
    updated_at: str
    pending_tool_calls: NotRequired[Stored[Answered]]
    resumed: NotRequired[list[Resumption]]
    output: NotRequired[Stored[Answered]]
    cut: NotRequired[str]


class RunPage(TypedDict):
    runs: list[RunRow]
    next_cursor: NotRequired[str]


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
    claim: Annotated[str, Field(description="Of a run that was resumed: from resume_run.")] = "",
    thread_id: ThreadId = "",
) -> Json:
    """Store the checkpoint of a run that waits, for a person or for anything else, to be resumed later from any
    process. pending_tool_calls are the calls not yet done; those that wait for data may have a resume_schema."""
    given = runs.Suspension(run_id, state, workflow_id, metadata, pending_tool_calls, reason, ttl_seconds, claim)
    # A run that is suspended again has its thread, whichever the current one is.
    thread = call.thread(thread_id) if thread_id or not claim else ""
    return await runs.suspend_run(call.engine, call.scope, thread, given, sent=call.sent(thread_id))


@tool("Resume run", "runs", "write", answers=ResumedRun, largest_answer=500_000)
async def resume_run(
    call: Call,
    run_id: RunId,
    tool_call_id: Annotated[str, Field(description="The call that data is for, if several wait.")] = "",
    data: Data = "",
    lease_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300,
) -> Json:
    """Take a suspended run over: of several who try, one gets it, with its state and a claim that suspend_run and
    complete_run want. After lease_seconds another may take it. Approve or deny with data={"approved": true} or
    false."""
    brings = data != ""  # as a client sends it that fills every argument in
    if tool_call_id and not brings:
        raise InvalidInput("tool_call_id: says what data is for: give data, too, or leave both out")
    brought = runs.ResumeData(data, tool_call_id) if brings else None
    return await runs.resume_run(
        call.engine, call.scope, run_id, brought, lease_seconds=lease_seconds, sent=call.sent()
    )


@tool("Complete run", "runs", "write", answers=EndedRun, destructive=True, idempotent=True)
async def complete_run(
    call: Call, run_id: RunId, claim: RunId, status: Ending = "completed", output: Output = ""
) -> Json:
    """End a run that you resumed. Its checkpoint is removed for good, its output kept."""
    kept = None if output == "" else output
    return await runs.complete_run(call.engine, call.scope, run_id, claim, status, kept, sent=call.sent())


@tool("List runs", "runs", "read", answers=RunPage, largest_answer=300_000)
async def list_runs(
    call: Call,
    run_id: Annotated[str, Field(description="Only this one, with its pending tool calls and output.")] = "",
    status: Annotated[list[Status], BeforeValidator(_listed), Field(description="Only these; left out: all.")] = [],  # noqa: B006
    workflow_id: str = "",
    thread_id: Annotated[str, Field(description="Only of this conversation; left out: of all.")] = "",
    since: Annotated[str, Field(description="ISO 8601, of when it was made.")] = "",
    until: Annotated[str, Field(description="ISO 8601")] = "",
    metadata: Annotated[FreeObject, Field(description="Keys and values that must be equal.")] = {},  # noqa: B006
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    cursor: str = "",
) -> Json:
    """List runs, newest first, without their state. `next_cursor` continues a long list."""
    if run_id:
        return await run_lists.get_run(call.engine, call.scope, run_id)
    asked = run_lists.RunListing(
        statuses=list(status),
        workflow_id=workflow_id,
        thread_id=call.thread(thread_id) if thread_id else "",
        since=parse_time(since, "since") if since else None,
        until=parse_until(until) if until else None,
        metadata=metadata,
    )
    return await run_lists.list_runs(call.engine, call.scope, asked, limit=limit, cursor=cursor)
