"""Sums of model calls, as answers show them. This module imports nothing heavy: the list of tools needs it."""

from typing import NotRequired

from typing_extensions import TypedDict


# What was spent on models; calls of one whose price is not known cost nothing here.
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
