"""The cost of a model call, and sums of calls as answers show them."""

from collections.abc import Iterable
from typing import Any

from layerlore.memory.usage.model_usage import NANO, ModelUsage
from layerlore.memory.usage.prices import PriceList
from layerlore.memory.usage.usage_answers import Usage, UsageByModel, UsageOfModel
from layerlore.storage.audit.usage import Spent, UsageLine

STEPS = "steps"
_SHOWN_MODELS = 20


def price_call(usage: ModelUsage, model: str, prices: PriceList, *, source: str = STEPS) -> UsageLine:
    """The line of one model call. ``source`` is ``STEPS`` for a recorded step, or the kind of one of our own jobs.

    A cost in the usage wins over the price list. A call with neither is counted as unpriced.
    """
    cost = prices.cost(model, usage) if usage.cost_nano_usd is None else usage.cost_nano_usd
    return UsageLine(model, source, Spent(1, usage.input, usage.output, cost or 0, int(cost is None)))


def add_lines(lines: Iterable[UsageLine]) -> Spent:
    """The sum of all lines."""
    return sum((line.spent for line in lines), Spent())


def present_spent(sums: Spent) -> Usage:
    """Sums in the form of an answer."""
    usage: Usage = {
        "input_tokens": sums.input_tokens,
        "output_tokens": sums.output_tokens,
        "cost_usd": sums.cost_nano_usd / NANO,
    }
    if sums.unpriced_calls:
        usage["unpriced_calls"] = sums.unpriced_calls
    return usage


def present_lines(lines: Iterable[UsageLine]) -> UsageByModel:
    """The sum of all lines and the sum of each model, the most expensive first, with a count of the models left out."""
    lines = list(lines)
    sums = add_lines(lines)
    by_model: dict[str, Spent] = {}
    for line in lines:
        by_model[line.model] = by_model.get(line.model, Spent()) + line.spent
    ranked = sorted(by_model.items(), key=_cost_rank)
    answer: UsageByModel = {
        "calls": sums.calls,
        **present_spent(sums),
        "models": [present_model(model, of_model) for model, of_model in ranked[:_SHOWN_MODELS]],
    }
    if len(ranked) > _SHOWN_MODELS:
        answer["more_models"] = len(ranked) - _SHOWN_MODELS
    return answer


def _cost_rank(entry: tuple[str, Spent]) -> Any:
    model, sums = entry
    return -sums.cost_nano_usd, -(sums.input_tokens + sums.output_tokens), model


def present_model(model: str, sums: Spent) -> UsageOfModel:
    """The sum of one model in the form of an answer, without a name where no step gave one."""
    if not model:
        return {"calls": sums.calls, **present_spent(sums)}
    return {"model": model, "calls": sums.calls, **present_spent(sums)}
