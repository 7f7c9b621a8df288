"""The reply of a model, read from litellm's response, and its cost."""

from dataclasses import dataclass
from typing import Any

from layerlore.extraction.chat.port import ChatFailed
from layerlore.memory.rules.limits import Limits
from layerlore.memory.usage.model_usage import ModelUsage, read_usage
from layerlore.memory.usage.prices import load_prices
from layerlore.memory.usage.sums import price_call
from layerlore.storage.audit.usage import Spent
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json

_LIMITS = Limits()
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete text of a model, and the cost of the request."""

    text: str
    spent: Spent


def read_reply(model: str, talk: list[Json], answered: Any, most: int) -> Reply:
    """Read the text and its cost. Raises ChatFailed for a refusal, and for an answer that is empty, was cut off, or has
    more characters than ``most``."""
    choice = next(iter(_field(answered, "choices") or ()), None)
    message = _field(choice, "message")
    text = _text_of(_field(message, "content"))
    cost = _cost(model, talk, text, _field(answered, "usage"))
    problem = _problem(text, message, _field(choice, "finish_reason"), most)
    if problem:
        raise ChatFailed(f"{model}: {problem}", retryable=True, spent=cost)
    return Reply(text, cost)


def _problem(text: str, message: Any, finish: Any, most: int) -> str:
    if finish == "content_filter":
        return "the provider's content filter stopped the answer"
    if _refusal(message):
        return "it refused to answer"
    if len(text) > most:
        return f"its answer has {len(text):,} characters; at most {most:,} are allowed (llm.max_answer_tokens)"
    if finish == "length":
        return "its answer was cut off: it needs more tokens than llm.max_answer_tokens, or than the model has"
    return "" if text.strip() else "its answer is empty"


def _refusal(message: Any) -> bool:
    return bool(_field(message, "refusal") or _field(_field(message, "provider_specific_fields"), "refusal"))


def _text_of(content: Any) -> str:
    """The text of a message, which some providers return in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text_of(_field(part, "text")) for part in content)
    return ""


def _cost(model: str, talk: list[Json], text: str, used: Any) -> Spent:
    """The cost as the provider counted it, else an estimate at four characters a token."""
    raw = used.model_dump(exclude_none=True) if hasattr(used, "model_dump") else used
    try:
        usage = read_usage(raw, "usage", _LIMITS) if raw else None
    except InvalidInput:
        usage = None
    if usage is None or not (usage.input or usage.output):
        sent = sum(len(each["content"]) for each in talk)
        usage = ModelUsage(input=-(-sent // _CHARACTERS_A_TOKEN), output=-(-len(text) // _CHARACTERS_A_TOKEN))
    return price_call(usage, model, load_prices()).spent


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)
