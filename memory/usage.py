"""Tokens and money: what a call of a model cost, and the sums as answers show them."""

from collections.abc import Iterable
from typing import Any

from layerlore.memory.prices import PriceList
from layerlore.memory.usage_shapes import NANO, Usage
from layerlore.storage.records import Json
from layerlore.storage.usage import Line, Spent

STEPS = "steps"
_SHOWN_MODELS = 20


def spent(usage: Usage, model: str, prices: PriceList, *, source: str = STEPS) -> Line:
    """One call of a model, for recorded steps or (``source``: its kind) a job of our own.

    The cost as given wins over the price list; what neither knows is counted as unpriced.
    """
    cost = prices.cost(model, usage) if usage.cost_nano_usd is None else usage.cost_nano_usd
    return Line(model, source, Spent(1, usage.input, usage.output, cost or 0, int(cost is None)))


def total(lines: Iterable[Line]) -> Spent:
    """All of the lines together."""
    return sum((line.spent for line in lines), Spent())


def shown_spent(sums: Spent) -> Json:
    """Sums as an answer has them."""
    return {
        "input_tokens": sums.input_tokens,
        "output_tokens": sums.output_tokens,
        "cost_usd": sums.cost_nano_usd / NANO,
        **({"unpriced_calls": sums.unpriced_calls} if sums.unpriced_calls else {}),
    }


def shown_lines(lines: Iterable[Line]) -> Json:
    """What was spent in all, and by model: the dearest first, and how many more there are."""
    lines = list(lines)
    by_model: dict[str, Spent] = {}
    for line in lines:
        by_model[line.model] = by_model.get(line.model, Spent()) + line.spent
    ranked = sorted(by_model.items(), key=_dearest)
    return {
        "calls": (sums := total(lines)).calls,
        **shown_spent(sums),
        "models": [shown_model(model, of_model) for model, of_model in ranked[:_SHOWN_MODELS]],
        **({"more_models": len(ranked) - _SHOWN_MODELS} if len(ranked) > _SHOWN_MODELS else {}),
    }


def _dearest(entry: tuple[str, Spent]) -> Any:
    model, sums = entry
    return -sums.cost_nano_usd, -(sums.input_tokens + sums.output_tokens), model


def shown_model(model: str, sums: Spent) -> Json:
    """What was spent on one model; it has no name where no step gave one."""
    return {**({"model": model} if model else {}), "calls": sums.calls, **shown_spent(sums)}
