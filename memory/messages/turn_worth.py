"""What a turn is worth to background work: whether somebody says something in it, or only asks, thanks or greets."""

from collections.abc import Iterable, Sequence

from layerlore.memory.digest.sentences import Sentence, bound_text, read_sentence, split_sentences
from layerlore.memory.parts.speech_acts import measure_speech_acts, only_greets
from layerlore.storage.core.records import Json

# A text that asks to such a share only asks: the rest is courtesy.
_ASKS = 0.9
# What asks with so many content words, and is no question, sets a task.
_TASK = 3
_OBJECTIONS = ("no,", "no ", "nein,", "nein ", "non,", "nee,", "não,", "нет,")


def tells(parts: Sequence[Json]) -> bool:
    """Whether a user's message says something to keep: a rule, a decision, an error, something of themselves, an id or a
    number, an image or a file, or any statement; and not only a question, thanks, or a yes.

    What is taken for nothing by mistake is read a little later, with what follows it.
    """
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if any(part["type"] in ("image", "file") for part in parts):
        return True
    return any(_tells(bound_text(text)) for text in texts)


def _tells(text: str) -> bool:
    sentences = [read_sentence(each) for each in split_sentences(text)]
    if any(_holds_something(each) for each in sentences):
        return True
    objects = text.lower().startswith(_OBJECTIONS)
    return any(_states(each) for each in sentences) and (objects or measure_speech_acts(text).asks < _ASKS)


def _holds_something(sentence: Sentence) -> bool:
    kinds = sentence.kinds
    if sentence.values or not kinds.isdisjoint(("rule", "decision", "error")):
        return True
    if not sentence.question and sentence.content_words >= _TASK:
        return True
    if "self" not in kinds:
        return False
    if sentence.question:
        return sentence.content_words > 2 and sentence.names > 0
    return "ask" not in kinds or sentence.names > 0


def _states(sentence: Sentence) -> bool:
    if sentence.question or "ask" in sentence.kinds:
        return False
    return sentence.content_words > (3 if "polite" in sentence.kinds else 0)


def is_idle(text: str) -> bool:
    """Whether a text only greets, thanks or says goodbye. A yes or an ok, which may accept something, is not idle."""
    return only_greets(text)


def works(parts: Iterable[Json]) -> bool:
    """Whether a message calls a tool or brings a tool's result."""
    return any(part["type"] in ("tool_call", "tool_result") for part in parts)
