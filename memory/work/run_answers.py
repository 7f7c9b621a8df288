"""Runs as answers show them. This module imports nothing heavy: the list of tools needs it."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from layerlore.memory.rules.stored import Stored
from layerlore.memory.usage.usage_answers import Usage

Status = Literal["running", "suspended", "completed", "failed", "cancelled", "expired"]
Ending = Literal["completed", "failed", "cancelled"]

_VALUES: list[dict[str, Any]] = [{"type": type_} for type_ in ("object", "string", "number", "boolean")]
AnyJson = Annotated[Any, WithJsonSchema({"anyOf": [*_VALUES, {"type": "array"}, {"type": "null"}]})]


class StartedRun(TypedDict):
    run_id: str
    thread_id: str
    status: Literal["running"]
    claim: str
    claimed_until: str
    masked: NotRequired[int]


class SuspendedRun(TypedDict):
    run_id: str
    thread_id: str
    status: Literal["suspended"]
    expires_at: NotRequired[str]
    unchanged: NotRequired[bool]
    masked: NotRequired[int]


class Resumption(TypedDict):
    tool_call_id: NotRequired[str]
    decision: NotRequired[Literal["approve", "deny"]]
    data: Stored[AnyJson]
    by: NotRequired[str]
    at: str


class UpdatedRun(TypedDict):
    run_id: str
    thread_id: str
    status: Literal["running", "cancelled"]
    claimed_until: NotRequired[str]
    resumed: NotRequired[Stored[list[Resumption]]]
    ended_by: NotRequired[str]
    reason: NotRequired[Stored[str]]
    first: NotRequired[int]
    last: NotRequired[int]
    events: NotRequired[int]
    usage: NotRequired[Usage]
    masked: NotRequired[int]


class DecidedRun(TypedDict):
    run_id: str
    thread_id: str
    status: Literal["running", "suspended"]
    answered: list[str]
    waiting: int
    unchanged: NotRequired[bool]


class CancelledRun(TypedDict):
    run_id: str
    thread_id: str
    status: Literal["cancelled"]
    was: NotRequired[Literal["running", "suspended"]]
    unchanged: NotRequired[bool]
    masked: NotRequired[int]


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
    state: NotRequired[Stored[AnyJson]]
    pending_tool_calls: Stored[AnyJson]
    resumed: list[Resumption]


class EndedRun(TypedDict):
    run_id: str
    thread_id: str
    status: Ending
    unchanged: NotRequired[bool]
    first: NotRequired[int]
    last: NotRequired[int]
    events: NotRequired[int]
    usage: NotRequired[Usage]
    masked: NotRequired[int]


class WaitingCall(TypedDict):
    tool_call_id: str
    tool_name: NotRequired[Stored[str]]


class RunRow(TypedDict):
    run_id: str
    thread_id: str
    status: Status
    resumable: NotRequired[bool]
    workflow_id: NotRequired[Stored[str]]
    parent_run_id: NotRequired[str]
    metadata: NotRequired[Stored[dict[str, Any]]]
    reason: NotRequired[Stored[str]]
    waiting: NotRequired[list[WaitingCall]]
    claimed_by: NotRequired[str]
    claimed_at: NotRequired[str]
    claimed_until: NotRequired[str]
    ended_by: NotRequired[str]
    expires_at: NotRequired[str]
    created_at: str
    updated_at: str


class SubAgentUsage(Usage):
    agent: Stored[str]
    model: NotRequired[str]


class RunUsage(Usage):
    sub_agents: NotRequired[list[SubAgentUsage]]


class RunDetail(RunRow):
    pending_tool_calls: NotRequired[Stored[AnyJson]]
    resumed: NotRequired[list[Resumption]]
    output: NotRequired[Stored[AnyJson]]
    usage: NotRequired[RunUsage]
    state: NotRequired[Stored[AnyJson]]
    cut: NotRequired[str]


class RunPage(TypedDict):
    runs: list[RunRow]
    next_cursor: NotRequired[str]
