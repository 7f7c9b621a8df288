"""Tools about the steps of an agent and the log of what changed."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from layerlore.server.tools.declaring import Declaration, ThreadId, Usage, annotations
from layerlore.server.tools.stored_content import Stored

RawSteps = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"type": {"type": "string"}, "operation_id": {"type": "string"}},
                "required": ["type"],
            },
        }
    ),
]


class RecordedSteps(TypedDict):
    thread_id: str
    first: NotRequired[int]
    last: NotRequired[int]
    events: int
    masked: NotRequired[int]
    usage: NotRequired[Usage]


class StepPage(TypedDict):
    thread_id: str
    steps: Stored[list[dict[str, Any]]]
    next_cursor: NotRequired[str]


class EventRow(TypedDict):
    seq: int
    type: str
    by: str
    tool: NotRequired[str]
    at: str
    payload: Stored[dict[str, Any]]


class EventPage(TypedDict):
    events: list[EventRow]
    next: int
    last_seq: int
    more: bool


def record_steps(steps: RawSteps, thread_id: ThreadId = "") -> RecordedSteps:
    """Record what an agent did, in order, all or none. A step has type (text, tool_call, tool_result), operation_id
    and any of agent_id, agent_name, sub_agent_id, sub_agent_name, role, content, tool_name, tool_call_id, arguments,
    result, is_error, usage, model, message_id, metadata, created_at. An event has type (AgentStart, AgentEnd,
    TurnStart, TurnEnd, ToolExecutionStart, ToolExecutionEnd, Error) and payload."""


def list_steps(
    operation_id: str = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str = "",
    thread_id: ThreadId = "",
) -> StepPage:
    """Read the steps of a conversation, oldest first. `next_cursor` continues."""


def list_events(
    after: Annotated[int, Field(ge=0)] = 0,
    types: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    scope: Literal["thread", "resource"] = "thread",
    thread_id: ThreadId = "",
) -> EventPage:
    """Read what changed, in order, from a seq on: in a conversation, or of the resource (its conversations and
    profile). `next` is the `after` for the next page or the next look."""


TOOLS = (
    Declaration(record_steps, "Record steps", "runs", "write", annotations()),
    Declaration(
        list_steps, "List steps", "runs", "read", annotations(read_only=True, idempotent=True), largest_answer=300_000
    ),
    Declaration(
        list_events, "List events", "runs", "read", annotations(read_only=True, idempotent=True), largest_answer=300_000
    ),
)
