"""What a model said, taken out of litellm's answer, and what it cost."""

from dataclasses import dataclass
from typing import Any

from layerlore.extraction.chat.port import ThinkingFailed
from layerlore.memory.limits import Limits
from layerlore.memory.prices import load_prices
from layerlore.memory.usage import spent
from layerlore.memory.usage_shapes import Usage, read_usage
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Json
from layerlore.storage.usage import Spent

_LIMITS = Limits()
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Reply:
    """A text that a model wrote to its end, and what the request cost."""

    text: str
    spent: Spent


def read_reply(model: str, talk: list[Json], answered: Any, most: int) -> Reply:
    """Raises ThinkingFailed for a refusal, and for an answer that is empty, was cut off, or has more characters than
    ``most``."""
    choice = next(iter(_field(answered, "choices") or ()), None)
    message = _field(choice, "message")
    text = _text_of(_field(message, "content"))
    cost = _cost(model, talk, text, _field(answered, "usage"))
    problem = _problem(text, message, _field(choice, "finish_reason"), most)
    if problem:
        raise ThinkingFailed(f"{model}: {problem}", retryable=True, spent=cost)
    return Reply(text, cost)


def _problem(text: str, message: Any, finish: Any, most: int) -> str:
    if finish == "content_filter":
        return "the provider's content filter stopped the answer"
    if _refusal(message):
        return "it refused to answer"
    if len(text) > most:
        return f"its answer has {len(text):,} characters; {most:,} are allowed (llm.max_answer_tokens)"
    if finish == "length":
        return "its answer was cut off: it needs more tokens than llm.max_answer_tokens, or than the model has"
    return "" if text.strip() else "its answer is empty"


def _refusal(message: Any) -> bool:
    return bool(_field(message, "refusal") or _field(_field(message, "provider_specific_fields"), "refusal"))


def _text_of(content: Any) -> str:
    """The text of a message, which some give in parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text_of(_field(part, "text")) for part in content)
    return ""


def _cost(model: str, talk: list[Json], text: str, used: Any) -> Spent:
    """As the provider counted it, else four characters a token: nothing is free because nobody counted."""
    raw = used.model_dump(exclude_none=True) if hasattr(used, "model_dump") else used
    try:
        usage = read_usage(raw, "usage", _LIMITS) if raw else None
    except InvalidInput:
        usage = None
    if usage is None or not (usage.input or usage.output):
        sent = sum(len(each["content"]) for each in talk)
        usage = Usage(input=-(-sent // _CHARACTERS_A_TOKEN), output=-(-len(text) // _CHARACTERS_A_TOKEN))
    return spent(usage, model, load_prices()).spent


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)
