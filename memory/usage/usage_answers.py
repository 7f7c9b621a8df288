"""Sums of model calls, as answers show them. This module imports nothing heavy: the list of tools needs it."""

from typing import NotRequired

from typing_extensions import TypedDict


# The tokens and the cost of models; calls of a model without a known price cost nothing here.
class Usage(TypedDict):
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced_calls: NotRequired[int]


class UsageOfModel(Usage):
    model: NotRequired[str]
    calls: int


class UsageByModel(Usage):
    calls: int
    models: list[UsageOfModel]
    more_models: NotRequired[int]


class Calls(TypedDict):
    calls: int
    failed: int
    p50_ms: NotRequired[float]
    p95_ms: NotRequired[float]


class Day(Calls):
    day: str
    messages: int
    tokens: int
    entries: int
    steps: int
    context_tokens: int
    recall_tokens: int
    hook_tokens: int
    captured: int
    model_calls: int
    model_tokens: int
    cost_usd: float
    unpriced_calls: NotRequired[int]


class ToolCalls(Calls):
    tool: str


class HooksOfHost(TypedDict):
    host: str
    shown: int
    tokens: int
    captured: int


class KindOfEntry(TypedDict):
    kind: str
    entries: int


class Days(TypedDict):
    days: list[Day]
    tools: list[ToolCalls]
    hooks: list[HooksOfHost]
    kinds: list[KindOfEntry]
