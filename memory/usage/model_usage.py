"""The usage of a model call, read from the forms of providers and agent libraries; and its cost, by the prices of models.

Known are OpenAI's two APIs, Anthropic, Gemini, Bedrock, OpenRouter's ``cost``, litellm, LangChain, the AI SDK,
VoltAgent and n8n, in snake_case and camelCase. Other keys of such an object are ignored.
"""

import asyncio
import importlib.util
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from pathlib import Path
from typing import Any

from layerlore.memory.rules.validation import Limits, check_id, describe
from layerlore.memory.usage.usage_answers import Usage, UsageByModel, UsageOfModel
from layerlore.storage.audit.usage_rows import UsageLine, UsageSums
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.records import StoredJson

NANO = 10**9
MOST_TOKENS = 100_000_000
"""Tokens of one step, so that sums stay within 64 bits."""
MOST_USD = 10_000

_INPUT = ("input_tokens", "prompt_tokens", "prompt_token_count")
_OUTPUT = ("output_tokens", "completion_tokens", "candidates_token_count")
_TOTAL = ("total_tokens", "total_token_count")
_COST = ("cost", "cost_usd", "total_cost")
# Anthropic and Bedrock write these beside `input_tokens`, and do not count them among it.
_READ_APART = ("cache_read_input_tokens",)
_WRITTEN_APART = ("cache_creation_input_tokens", "cache_write_input_tokens")
_CACHED = (*_READ_APART, "cached_input_tokens", "cached_tokens", "cached_content_token_count")
_REASONING = ("reasoning_tokens", "thoughts_token_count")
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details", "output_token_details")
_CACHED_DETAIL = ("cached_tokens", "cache_read_tokens", "cache_read")
_WRITTEN_DETAIL = ("cache_write_tokens", "cache_creation_tokens", "cache_write", "cache_creation")
_REASONING_DETAIL = ("reasoning_tokens", "reasoning")
_AUDIO_DETAIL = ("audio_tokens", "audio")
_KNOWN = {*_INPUT, *_OUTPUT, *_TOTAL, *_COST, *_CACHED, *_WRITTEN_APART, *_REASONING}
_HUMP = linear_re.compile(r"(?<=[a-z0-9])([A-Z])")


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens of one model call.

    ``input`` includes ``cached`` (read from a prompt cache) and ``written`` (written to one; ``written_long`` of these
    for an hour). ``output`` includes ``reasoning``. ``cost_nano_usd`` is the cost as given. ``plain`` is false when a
    price list cannot price the call: audio, another service tier, or a total without its parts.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    written_long: int = 0
    reasoning: int = 0
    cost_nano_usd: int | None = None
    model: str = ""
    plain: bool = True


def snake_case(name: str) -> str:
    """``promptTokens`` as ``prompt_tokens``."""
    return _HUMP.sub(r"_\1", name).lower()


def read_usage(raw: Any, where: str, limits: Limits) -> ModelUsage | None:
    """Read the usage of a step; None where it is empty or every known key is null.

    A total without its parts counts as input. Raises InvalidInput, LimitExceeded.
    """
    if not isinstance(raw, dict):
        raise InvalidInput(f"{where}: must be an object such as {{'input_tokens': 12, 'output_tokens': 3}}")
    given = {snake_case(key): value for key, value in raw.items()}
    if given and not given.keys() & (_KNOWN | {"model"}):
        raise InvalidInput(
            f"{where}: no known token count; give input_tokens and output_tokens (or as OpenAI, Anthropic, "
            "Gemini or the AI SDK name them), or cost in US dollars"
        )
    known = {name: value for name, value in given.items() if name in _KNOWN and value is not None}
    if not known:
        return None
    cost = next((known[name] for name in _COST if known.get(name) is not None), None)
    model = given.get("model")
    return replace(
        _counts(known, given, where),
        cost_nano_usd=None if cost is None else _nano_usd(cost, where),
        model=check_id(model, f"{where}.model", limits.name_chars) if model not in (None, "") else "",
    )


def _counts(known: StoredJson, given: StoredJson, where: str) -> ModelUsage:
    input_details, output_details = _details(given, _INPUT_DETAILS), _details(given, _OUTPUT_DETAILS)
    total = _count(known, _TOTAL, where, most=4 * MOST_TOKENS)
    sent, received = _split_total(_count(known, _INPUT, where), _count(known, _OUTPUT, where), total)
    cached = _count(known, _CACHED, where) or _count(input_details, _CACHED_DETAIL, where) or 0
    written = _count(known, _WRITTEN_APART, where) or _count(input_details, _WRITTEN_DETAIL, where) or 0
    long = _count(_details(given, ("cache_creation",)), ("ephemeral_1h_input_tokens",), where) or 0
    reasoning = _count(known, _REASONING, where) or _count(output_details, _REASONING_DETAIL, where) or 0
    total_alone = not known.keys() & {*_INPUT, *_OUTPUT} and bool(total)
    if _is_counted_beside(known, sent, cached + written, total, received):
        sent += cached + written
    # Gemini counts thoughts beside the output; others count reasoning as a part of it.
    if "thoughts_token_count" in known or reasoning > received or (reasoning and total == sent + received + reasoning):
        received += reasoning
    audio = any(_count(each, _AUDIO_DETAIL, where) for each in (input_details, output_details))
    return ModelUsage(
        input=sent,
        output=received,
        cached=cached,
        written=written,
        written_long=min(long, written),
        reasoning=reasoning,
        plain=not (total_alone or audio)
        and given.get("service_tier") in (None, "", "auto", "default", "standard", "on_demand"),
    )


def _split_total(sent: int | None, received: int | None, total: int | None) -> tuple[int, int]:
    """Tokens sent and received; the one that is not given is what the other leaves of the total."""
    if sent is None:
        return max(0, (total or 0) - (received or 0)), received or 0
    return sent, max(0, (total or 0) - sent) if received is None else received


def _is_counted_beside(known: StoredJson, sent: int, cached: int, total: int | None, received: int) -> bool:
    """Whether the tokens of a prompt cache are counted beside the input and not as a part of it."""
    if not cached:
        return False
    # The cache cannot be a part of the input if it is larger.
    if cached > sent:
        return True
    if known.get("input_tokens") is None:
        return False
    # A total settles the question: it holds every token once.
    if total is not None:
        return total >= sent + received + cached
    return bool(known.keys() & {*_READ_APART, *_WRITTEN_APART})


def _details(given: StoredJson, names: Sequence[str]) -> StoredJson:
    found: StoredJson = next((given[name] for name in names if isinstance(given.get(name), dict)), {})
    return {snake_case(key): value for key, value in found.items()}


def _count(given: StoredJson, names: Sequence[str], where: str, *, most: int = MOST_TOKENS) -> int | None:
    """The first of the counts that is present; None without any. Raises InvalidInput, LimitExceeded."""
    name = next((name for name in names if given.get(name) is not None), None)
    if name is None:
        return None
    value = given[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        if isinstance(value, int | float) and not isinstance(value, bool):
            what = str(value)
        else:
            what = describe(value)
        raise InvalidInput(f"{where}.{name}: must be a whole number of tokens, 0 or more, not {what[:40]}")
    if value > most:
        raise LimitExceeded(f"{where}.{name}: at most {most:,} tokens are allowed in one step")
    return value


def _nano_usd(cost: Any, where: str) -> int:
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not cost >= 0:
        raise InvalidInput(f"{where}.cost: must be a number of US dollars, 0 or more, not {describe(cost)}")
    if cost > MOST_USD:
        raise LimitExceeded(f"{where}.cost: at most {MOST_USD:,} US dollars are allowed in one step")
    # A float such as 0.1 is not exact, so the conversion goes through its decimal text.
    return to_nano(Decimal(str(cost)) * NANO)


def to_nano(amount: Decimal) -> int:
    """Round an amount of nano-dollars to a whole number."""
    return int(amount.to_integral_value(ROUND_HALF_EVEN))


log = logging.getLogger(__name__)

PRICE_FILE = "model_prices_and_context_window_backup.json"

_SAMPLE = "sample_spec"  # the entry that explains the others

Rates = Mapping[str, float]
"""US dollars a token, under the list's own names."""

_INPUT_PRICE, _OUTPUT_PRICE = "input_cost_per_token", "output_cost_per_token"
_CACHED_PRICE, _WRITTEN_PRICE = "cache_read_input_token_cost", "cache_creation_input_token_cost"
_WRITTEN_LONG_PRICE = f"{_WRITTEN_PRICE}_above_1hr"
_REASONING_PRICE = "output_cost_per_reasoning_token"
_KEPT = linear_re.compile(
    rf"({_INPUT_PRICE}|{_OUTPUT_PRICE}|{_CACHED_PRICE}|{_WRITTEN_PRICE}(_above_1hr)?|{_REASONING_PRICE})(_above_\d+k_tokens)?"
)

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
        # An entry under its full name wins; these only fill gaps.
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
            (usage.input - usage.cached - usage.written, _INPUT_PRICE),
            (usage.cached, _CACHED_PRICE, _INPUT_PRICE),
            (usage.written - usage.written_long, _WRITTEN_PRICE, _INPUT_PRICE),
            (usage.written_long, _WRITTEN_LONG_PRICE, _WRITTEN_PRICE, _INPUT_PRICE),
            (usage.output - usage.reasoning, _OUTPUT_PRICE),
            (usage.reasoning, _REASONING_PRICE, _OUTPUT_PRICE),
        ):
            if tokens:
                rate = _rate(rates, names, usage.input)
                if rate is None:
                    return None
                # Beyond 12 digits a float holds noise, which Decimal would keep.
                total += tokens * Decimal(f"{rate:.12g}")
        return to_nano(total * NANO)


def _is_price(value: Any) -> bool:
    # A token costs far less than a dollar: a larger number has another unit.
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
    # The list writes versions with a hyphen: "claude-3.5" is "claude-3-5" there.
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
    return UsageLine(model, source, UsageSums(1, usage.input, usage.output, cost or 0, int(cost is None)))


def add_lines(lines: Iterable[UsageLine]) -> UsageSums:
    """The sum of all lines."""
    return sum((line.spent for line in lines), UsageSums())


def present_spent(sums: UsageSums) -> Usage:
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
    by_model: dict[str, UsageSums] = {}
    for line in lines:
        by_model[line.model] = by_model.get(line.model, UsageSums()) + line.spent
    ranked = sorted(by_model.items(), key=_cost_rank)
    answer: UsageByModel = {
        "calls": sums.calls,
        **present_spent(sums),
        "models": [present_model(model, of_model) for model, of_model in ranked[:_SHOWN_MODELS]],
    }
    if len(ranked) > _SHOWN_MODELS:
        answer["more_models"] = len(ranked) - _SHOWN_MODELS
    return answer


def _cost_rank(entry: tuple[str, UsageSums]) -> Any:
    model, sums = entry
    return -sums.cost_nano_usd, -(sums.input_tokens + sums.output_tokens), model


def present_model(model: str, sums: UsageSums) -> UsageOfModel:
    """The sum of one model in the form of an answer, without a name where no step gave one."""
    if not model:
        return {"calls": sums.calls, **present_spent(sums)}
    return {"model": model, "calls": sums.calls, **present_spent(sums)}
