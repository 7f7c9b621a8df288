"""Tools about the memory itself."""

from typing import Any, NotRequired

from typing_extensions import TypedDict

from memstrata.server.tools.declaring import Declaration, Usage, annotations


class ScopeCounts(TypedDict):
    threads: int
    messages: int
    tokens: int
    restorable_deletes: int


class ModelUsage(Usage):
    model: NotRequired[str]
    calls: int


class UsageByModel(Usage):
    calls: int
    models: list[ModelUsage]
    more_models: NotRequired[int]


# How many pieces of text there are, how many still lack a vector, and how many get none, since the model refuses them.
class Vectors(TypedDict):
    model: str
    dimension: int
    total: int
    pending: int
    state: str
    languages: NotRequired[str]
    refused: NotRequired[int]
    reason: NotRequired[str]


class MemoryStatus(TypedDict):
    memory: str
    version: str
    database: dict[str, Any]
    scope: dict[str, str]
    counts: ScopeCounts
    tokens: dict[str, Any]
    usage: UsageByModel
    vectors: Vectors
    recall: dict[str, Any]
    degraded: list[str]


def memory_status() -> MemoryStatus:
    """How much is remembered, where it is kept, and what is degraded."""


TOOLS = (Declaration(memory_status, "Memory status", "curation", annotations(read_only=True, idempotent=True)),)
