"""What a model call used up, as providers and agent libraries write it, turned into the one form that is counted.

Known are OpenAI's two interfaces, Anthropic, Gemini, Bedrock, OpenRouter's ``cost``, litellm, LangChain, the AI SDK,
VoltAgent and n8n, in snake_case and camelCase. What else lies in such an object is left alone.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from layerlore.memory.acceptance import check_id, shown
from layerlore.memory.limits import Limits
from layerlore.storage.errors import InvalidInput, LimitExceeded
from layerlore.storage.records import Json

NANO = 10**9
MOST_TOKENS = 100_000_000
"""Of one step. Sums of as many steps as anybody records stay within 64 bits."""
MOST_USD = 10_000

_INPUT = ("input_tokens", "prompt_tokens", "prompt_token_count")
_OUTPUT = ("output_tokens", "completion_tokens", "candidates_token_count")
_TOTAL = ("total_tokens", "total_token_count")
_COST = ("cost", "cost_usd", "total_cost")
# Beside `input_tokens` these are what Anthropic and Bedrock write, who do not count them among it.
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

_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call. ``cached`` were read from a prompt cache and ``written`` to one, ``written_long`` of
    those for an hour; all are part of ``input``, as ``reasoning`` is of ``output``. ``cost_nano_usd`` is the cost as
    given. ``plain``: nothing in it (audio, another service tier, a total alone) has another price than a list gives.
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


def read_usage(raw: Any, where: str, limits: Limits) -> Usage | None:
    """Reads the usage of a step; None where it says nothing (it is empty, or all it knows is null).

    A total without its parts counts as input. Raises InvalidInput, LimitExceeded.
    """
    if not isinstance(raw, dict):
        raise InvalidInput(f"{where}: must be an object such as {{'input_tokens': 12, 'output_tokens': 3}}")
    given = {snake_case(key): value for key, value in raw.items()}
    if given and not given.keys() & (_KNOWN | {"model"}):
        raise InvalidInput(
            f"{where}: no token count that is known; give input_tokens and output_tokens (or as OpenAI, Anthropic, "
            "Gemini or the AI SDK name them), or cost in US dollars"
        )
    told = {name: value for name, value in given.items() if name in _KNOWN and value is not None}
    if not told:
        return None
    cost = next(_values(told, _COST), None)
    model = given.get("model")
    return Usage(
        **_counts(told, given, where),
        cost_nano_usd=None if cost is None else _nano_usd(cost, where),
        model=check_id(model, f"{where}.model", limits.name_chars) if model not in (None, "") else "",
    )


def _counts(told: Json, given: Json, where: str) -> dict[str, Any]:
    spent, made = _details(given, _INPUT_DETAILS), _details(given, _OUTPUT_DETAILS)
    entered, left = _count(told, _INPUT, where), _count(told, _OUTPUT, where)
    total = _count(told, _TOTAL, where, most=4 * MOST_TOKENS)
    cached = _count(told, _CACHED, where) or _count(spent, _CACHED_DETAIL, where) or 0
    written = _count(told, _WRITTEN_APART, where) or _count(spent, _WRITTEN_DETAIL, where) or 0
    long = _count(_details(given, ("cache_creation",)), ("ephemeral_1h_input_tokens",), where) or 0
    reasoning = _count(told, _REASONING, where) or _count(made, _REASONING_DETAIL, where) or 0
    if entered is None and total is not None:
        entered = max(0, total - (left or 0))
    elif left is None and total is not None:
        left = max(0, total - (entered or 0))
    alone = not told.keys() & {*_INPUT, *_OUTPUT} and bool(total)
    entered, left = entered or 0, left or 0
    if _lies_beside(told, entered, cached + written, total, left):
        entered += cached + written
    if "thoughts_token_count" in told or reasoning > left or (reasoning and total == entered + left + reasoning):
        left += reasoning
    audio = any(_count(each, _AUDIO_DETAIL, where) for each in (spent, made))
    return {
        "input": entered,
        "output": left,
        "cached": cached,
        "written": written,
        "written_long": min(long, written),
        "reasoning": reasoning,
        "plain": not (alone or audio) and given.get("service_tier") in _USUAL_TIERS,
    }


def _lies_beside(told: Json, entered: int, cached: int, total: int | None, left: int) -> bool:
    """Whether what went through a cache is counted beside the input, not as a part of it."""
    if not cached:
        return False
    if cached > entered:
        return True
    if told.get("input_tokens") is None:
        return False
    if total is not None:
        return total >= entered + left + cached
    return bool(told.keys() & {*_READ_APART, *_WRITTEN_APART})


def _details(given: Json, names: Sequence[str]) -> Json:
    found: Json = next((given[name] for name in names if isinstance(given.get(name), dict)), {})
    return {snake_case(key): value for key, value in found.items()}


def _values(given: Json, names: Sequence[str]) -> Iterator[Any]:
    return (given[name] for name in names if given.get(name) is not None)


def _count(given: Json, names: Sequence[str], where: str, *, most: int = MOST_TOKENS) -> int | None:
    """The first of the counts that is given."""
    name = next((name for name in names if given.get(name) is not None), None)
    if name is None:
        return None
    value = given[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        what = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else shown(value)
        raise InvalidInput(f"{where}.{name}: must be a whole number of tokens, 0 or more, not {what[:40]}")
    if value > most:
        raise LimitExceeded(f"{where}.{name}: at most {most:,} tokens are allowed in one step")
    return value


def _nano_usd(cost: Any, where: str) -> int:
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not cost >= 0:
        raise InvalidInput(f"{where}.cost: must be a number of US dollars, 0 or more, not {shown(cost)}")
    if cost > MOST_USD:
        raise LimitExceeded(f"{where}.cost: at most {MOST_USD:,} US dollars are allowed in one step")
    return to_nano(Decimal(str(cost)) * NANO)


def to_nano(amount: Decimal) -> int:
    """An amount of nano-dollars as a whole number of them."""
    return int(amount.to_integral_value(ROUND_HALF_EVEN))
