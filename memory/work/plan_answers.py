"""Plans and open work as answers show them."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from layerlore.storage.core.records import Plan


class PlanChanged(TypedDict):
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
    change: NotRequired[PlanChanged]


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
    change: PlanChanged
