"""The status of a memory as an answer shows it. This module imports nothing heavy: the list of tools needs it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from layerlore.memory.usage.usage_answers import UsageByModel

ANY_OBJECT = WithJsonSchema({"type": "object"})
"""A part of the status for people: a schema of its keys would not help a model."""
ANY_LIST = WithJsonSchema({"type": "array", "items": {"type": "object"}})
"""The same of a list."""


class ProcessState(TypedDict, total=False):
    """The server process, as people are shown it."""

    pid: int
    shared: bool
    version: str
    hosts: int
    seconds: int
    idle_minutes: float
    data_dir: str


class ScopeCounts(TypedDict):
    threads: int
    messages: int
    tokens: int
    restorable_deletes: int


# The stored bytes that count, and the most that is allowed, where there is a limit.
class StoredBytes(TypedDict):
    resource: int
    resource_allowed: NotRequired[int]
    tenant: NotRequired[int]
    tenant_allowed: NotRequired[int]


# The pieces of text: all of them, those that still lack a vector, and those that the model refuses.
class Vectors(TypedDict):
    model: str
    dimension: int
    total: int
    pending: int
    state: str
    languages: NotRequired[str]
    refused: NotRequired[int]
    reason: NotRequired[str]


# Jobs of one kind that are due, running, due later, or dead: failed so often that they wait to be resumed.
class WaitingJobs(TypedDict):
    kind: str
    state: Literal["due", "running", "later", "dead"]
    jobs: int


# The same of all tenants, for an operator: how many of them failed, and for how many seconds the oldest has been due.
class TenantsJobs(WaitingJobs):
    failed: int
    oldest_seconds: int


class FailedJob(TypedDict):
    kind: str
    thread_id: NotRequired[str]
    failures: int
    error: str


class FailingJob(FailedJob):
    next_at: str


class DeadJob(FailedJob):
    since: str


class Jobs(TypedDict):
    waiting: list[WaitingJobs]
    all_tenants: NotRequired[Annotated[list[TenantsJobs], ANY_LIST]]
    failing: NotRequired[list[FailingJob]]
    dead: NotRequired[list[DeadJob]]
    resume: NotRequired[str]


# The tokens and the cost of the models today (UTC), and the most that is allowed; 0 means no limit. The tenant's part,
# where it has an allowance.
class Budget(TypedDict):
    day: str
    tokens: NotRequired[int]
    cost_usd: NotRequired[float]
    daily_tokens: NotRequired[int]
    daily_usd: NotRequired[float]
    tenant_tokens: NotRequired[int]
    tenant_daily_tokens: NotRequired[int]


# The models that do the jobs, in words and by kind of job; and until when they rest, and why.
class ModelStatus(TypedDict):
    model: str
    models: dict[str, str]
    budget: Budget
    paused: NotRequired[str]
    paused_until: NotRequired[str]


# The tokens of the current conversation that no observation covers yet, and the number at which observations begin.
class ObservationState(TypedDict, total=False):
    thread_id: str
    pending_tokens: int
    message_tokens: int
    observed_seq: int
    noted_ahead_seq: int


# The caller, by the credential, and its rights.
class CallerStatus(TypedDict):
    principal: str
    tenant: str
    rights: list[str]


# The rules by which messages go by themselves, and how many went.
class KeptMessages(TypedDict):
    thread_messages: NotRequired[int]
    resource_messages: NotRequired[int]
    message_days: NotRequired[int]
    distilled: Literal["delete", "keep"]
    messages_gone: int


class TokenCounting(TypedDict):
    encoding: str
    image: int


class RecallSignals(TypedDict):
    signals: list[str]


class MemoryStatus(TypedDict):
    memory: str
    version: str
    server: NotRequired[Annotated[ProcessState, ANY_OBJECT]]
    database: dict[str, Any]
    caller: CallerStatus
    scope: dict[str, str]
    agent_settings: NotRequired[Annotated[Mapping[str, Any], ANY_OBJECT]]
    counts: ScopeCounts
    retention: NotRequired[Annotated[KeptMessages, ANY_OBJECT]]
    stored_bytes: StoredBytes
    tokens: Annotated[TokenCounting, ANY_OBJECT]
    usage: UsageByModel
    vectors: Vectors
    recall: Annotated[RecallSignals, ANY_OBJECT]
    jobs: Jobs
    thinking: ModelStatus
    observation: ObservationState
    degraded: list[str]
