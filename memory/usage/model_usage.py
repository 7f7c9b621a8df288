"""The usage of a model call, read from the forms of providers and agent libraries.

Known are OpenAI's two APIs, Anthropic, Gemini, Bedrock, OpenRouter's ``cost``, litellm, LangChain, the AI SDK,
VoltAgent and n8n, in snake_case and camelCase. Other keys of such an object are ignored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import check_id, describe
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
_USUAL_TIERS = (None, "", "auto", "default", "standard", "on_demand")

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
    cost = next(_values(known, _COST), None)
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
        plain=not (total_alone or audio) and given.get("service_tier") in _USUAL_TIERS,
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
    if cached > sent:
        return True
    if known.get("input_tokens") is None:
        return False
    if total is not None:
        return total >= sent + received + cached
    return bool(known.keys() & {*_READ_APART, *_WRITTEN_APART})


def _details(given: StoredJson, names: Sequence[str]) -> StoredJson:
    found: StoredJson = next((given[name] for name in names if isinstance(given.get(name), dict)), {})
    return {snake_case(key): value for key, value in found.items()}


def _values(given: StoredJson, names: Sequence[str]) -> Iterator[Any]:
    return (given[name] for name in names if given.get(name) is not None)


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
    return to_nano(Decimal(str(cost)) * NANO)


def to_nano(amount: Decimal) -> int:
    """Round an amount of nano-dollars to a whole number."""
    return int(amount.to_integral_value(ROUND_HALF_EVEN))
