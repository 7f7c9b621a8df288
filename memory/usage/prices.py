"""The prices of models, and the cost of their calls."""

import asyncio
import importlib.util
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from layerlore.memory.usage.model_usage import NANO, ModelUsage, to_nano
from layerlore.memory.usage.usage_answers import Usage, UsageByModel, UsageOfModel
from layerlore.storage.audit.usage_rows import Spent, UsageLine
from layerlore.storage.core import linear_re

log = logging.getLogger(__name__)

PRICE_FILE = "model_prices_and_context_window_backup.json"

_SAMPLE = "sample_spec"  # the entry that explains the others

Rates = Mapping[str, float]
"""US dollars a token, under the list's own names."""

_INPUT, _OUTPUT = "input_cost_per_token", "output_cost_per_token"
_CACHED, _WRITTEN = "cache_read_input_token_cost", "cache_creation_input_token_cost"
_WRITTEN_LONG = f"{_WRITTEN}_above_1hr"
_REASONING = "output_cost_per_reasoning_token"
_KEPT = linear_re.compile(rf"({_INPUT}|{_OUTPUT}|{_CACHED}|{_WRITTEN}(_above_1hr)?|{_REASONING})(_above_\d+k_tokens)?")

# Other names of the same providers.
_ALIASES = {
    "bedrock_converse": "bedrock",
    "amazon-bedrock": "bedrock",
    "cohere_chat": "cohere",
    "google": "gemini",
    "google_genai": "gemini",
    "models": "gemini",
    "google-vertex": "vertex_ai",
    "vertex": "vertex_ai",
    "mistralai": "mistral",
    "text-completion-openai": "openai",
    "x-ai": "xai",
}
# The providers that a model's name without one may belong to.
_MAKERS = ("openai", "anthropic", "gemini", "mistral", "deepseek", "xai", "cohere")

_DATE = linear_re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|latest|default)$")
_POINT = linear_re.compile(r"(?<=\d)\.(?=\d)")


class PriceList:
    """Prices by the name of a model. ``entries`` maps each name to its rates and its provider."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        self._rates: dict[str, Rates] = {}
        of_provider: dict[str, Rates] = {}
        for name, entry in entries.items():
            rates: Rates = {
                key: float(value) for key, value in entry.items() if _KEPT.fullmatch(key) and _is_price(value)
            }
            if rates and name != _SAMPLE:
                self._rates[name.lower()] = rates
                of_provider.setdefault(f"{_provider(entry)}/{name.lower()}", rates)
        for name, rates in of_provider.items():
            self._rates.setdefault(name, rates)

    def __len__(self) -> int:
        return len(self._rates)

    def rates(self, model: str) -> Rates | None:
        """The rates of a model, or None. Its name may begin with a provider and end with a date."""
        return next((self._rates[name] for name in _spellings(model) if name in self._rates), None)

    def cost(self, model: str, usage: ModelUsage) -> int | None:
        """The cost of a call in nano-dollars; None unless every kind of token in it has a price."""
        if usage.plain:
            rates = self.rates(model)
        else:
            rates = None
        if rates is None:
            return None
        total = Decimal(0)
        for tokens, *names in (
            (usage.input - usage.cached - usage.written, _INPUT),
            (usage.cached, _CACHED, _INPUT),
            (usage.written - usage.written_long, _WRITTEN, _INPUT),
            (usage.written_long, _WRITTEN_LONG, _WRITTEN, _INPUT),
            (usage.output - usage.reasoning, _OUTPUT),
            (usage.reasoning, _REASONING, _OUTPUT),
        ):
            if tokens:
                rate = _rate(rates, names, usage.input)
                if rate is None:
                    return None
                total += tokens * Decimal(f"{rate:.12g}")
        return to_nano(total * NANO)


def _is_price(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


def _provider(entry: Mapping[str, Any]) -> str:
    named = str(entry.get("litellm_provider", "")).lower()
    if named.startswith("vertex_ai"):
        return "vertex_ai"
    return _ALIASES.get(named, named)


def _rate(rates: Rates, names: list[str], input_tokens: int) -> float | None:
    """The first rate that the model has, at the tier of a call with this number of input tokens."""
    for name in names:
        tiers = [(found[1], rate) for key, rate in rates.items() if (found := _tier(name).fullmatch(key))]
        reached = [(int(least), rate) for least, rate in tiers if input_tokens > int(least) * 1000]
        if reached:
            return max(reached)[1]
        if name in rates:
            return rates[name]
    return None


@cache
def _tier(name: str) -> linear_re.Pattern:
    return linear_re.compile(rf"{name}_above_(\d+)k_tokens")


def _spellings(model: str) -> Iterator[str]:
    """The names that a model may have in the list, the closest first."""
    name = model.strip().lower()
    if name.startswith("ft:"):
        name = ":".join(name.split(":")[:2])  # every fine-tuned model of a base has the same price
    with_provider = [name]
    if ":" in name and "/" not in name and not name.startswith("ft:"):
        with_provider.append(name.replace(":", "/", 1))
    for each in list(with_provider):
        provider, slash, rest = each.partition("/")
        if slash and provider in _ALIASES:
            with_provider.append(f"{_ALIASES[provider]}/{rest}")
    if "/" not in name:
        with_provider += [f"{maker}/{name}" for maker in _MAKERS]
    undated = [_DATE.sub("", each) for each in with_provider]
    yield from with_provider
    yield from undated
    yield from (_POINT.sub("-", each) for each in (*with_provider, *undated))


def find_shipped_prices() -> Path | None:
    """Find the file that litellm ships without importing litellm; None if it is missing."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0], PRICE_FILE)
    if path.is_file():
        return path
    return None


@cache
def load_prices() -> PriceList:
    """Read the list once, in about 0.1 s: call it in a thread. A list that cannot be read is empty, with a warning."""
    path = find_shipped_prices()
    if path is None:
        log.warning("no price list found: steps are counted without prices")
        return PriceList({})
    try:
        return PriceList(json.loads(path.read_bytes()))
    except (OSError, ValueError, AttributeError) as error:
        log.warning("the price list %s cannot be read (%s): steps are counted without prices", path, error)
        return PriceList({})


async def load_prices_in_thread() -> PriceList:
    """The list, read in a thread at its first use."""
    if load_prices.cache_info().currsize:
        return load_prices()
    return await asyncio.to_thread(load_prices)


STEPS = "steps"
_SHOWN_MODELS = 20


def price_call(usage: ModelUsage, model: str, prices: PriceList, *, source: str = STEPS) -> UsageLine:
    """The line of one model call. ``source`` is ``STEPS`` for a recorded step, or the kind of one of our own jobs.

    A cost in the usage wins over the price list. A call with neither is counted as unpriced.
    """
    if usage.cost_nano_usd is None:
        cost = prices.cost(model, usage)
    else:
        cost = usage.cost_nano_usd
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
