"""Plans, runs, steps, events and attempts as answers show them. This module imports nothing heavy: the list of tools needs
it."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from layerlore.memory.rules.answers import Stored
from layerlore.memory.usage.usage_answers import Usage
from layerlore.storage.core.records import Plan


class PlanChangeResult(TypedDict):
    """The change that a call made, and how to undo it."""

    done: str
    revision: int
    replaced: NotRequired[int]
    dropped_steps: NotRequired[int]
    undo: NotRequired[str]
    masked: NotRequired[int]
    replaced_goal: NotRequired[str]


class OpenStep(TypedDict):
    id: str
    status: str
    description: str


class OpenPlanRow(TypedDict):
    kind: Literal["plan"]
    thread_id: str
    goal: str
    steps: int
    steps_done: int
    next_step: NotRequired[str]
    updated_at: str
    age: str
    open_steps: NotRequired[list[OpenStep]]


class OpenRunRow(TypedDict):
    kind: Literal["run"]
    run_id: str
    thread_id: str
    reason: NotRequired[str]
    waits_for: NotRequired[list[str]]
    updated_at: str
    age: str
    here: NotRequired[bool]


class TaskRow(TypedDict):
    kind: Literal["task"]
    thread_id: str
    current_task: NotRequired[str]
    next_step: NotRequired[str]
    updated_at: str
    age: str


class OpenWorkAnswer(TypedDict):
    """Plans and runs that are open, changed last first, and how many more there are of each."""

    open: list[OpenPlanRow | OpenRunRow]
    more_plans: NotRequired[int]
    more_runs: NotRequired[int]


class AllOpenWork(TypedDict):
    """Plans, runs and noted tasks that are open in all threads, changed last first."""

    open: list[OpenPlanRow | OpenRunRow | TaskRow]


class PlanAnswer(TypedDict):
    """The plan of a thread; without a revision none exists yet."""

    thread_id: str
    revision: NotRequired[int]
    updated_at: NotRequired[str]
    plan: Plan | None
    oldest_revision: NotRequired[int]
    elsewhere: NotRequired[OpenWorkAnswer]
    change: NotRequired[PlanChangeResult]


class StepState(TypedDict):
    id: str
    status: str


class StepStates(TypedDict):
    steps: list[StepState]


class PlanStateAnswer(TypedDict):
    """The answer of a change without the words of the plan."""

    thread_id: str
    revision: NotRequired[int]
    updated_at: NotRequired[str]
    plan: StepStates | None
    oldest_revision: NotRequired[int]
    change: PlanChangeResult


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


class RecordedSteps(TypedDict):
    thread_id: str
    first: NotRequired[int]
    last: NotRequired[int]
    events: int
    masked: NotRequired[int]
    usage: NotRequired[Usage]


class ListedSteps(TypedDict):
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


class ListedEvents(TypedDict):
    events: list[EventRow]
    next: int
    last_seq: int
    more: bool


class LoggedAttempt(TypedDict):
    thread_id: str
    task_key: str
    attempt: int
    masked: NotRequired[int]
