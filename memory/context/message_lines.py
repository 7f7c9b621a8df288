"""A message of the window as lines of text, and what it may cost at most, without counting it again."""

from collections.abc import Sequence
from dataclasses import replace

from memstrata.memory.blocks import escaped
from memstrata.memory.parts import plain_text
from memstrata.memory.tokens import TokenCounter
from memstrata.storage.records import Json, Message

OVERHEAD = 10
"""Tokens of a line beside its message's own: number, role, a short name, and the break of the line."""
# Longer ones are counted.
_SHORT_NAME = 8
# A part in brackets: "[tool result name: ...]".
_BRACKETS = 8
# What "&lt;" takes more than "<".
_ESCAPE = 3


def line(message: Message) -> str:
    """``#12 user Anna: the text``; predefined messages have no number."""
    number = f"#{message.seq} " if message.seq > 0 else ""
    speaker = f"{message.role} {message.name}" if message.name else message.role
    return f"{number}{speaker}: {plain_text(message.parts)}"


def lines(messages: Sequence[Message]) -> str:
    return "\n".join(map(line, messages))


def weighed(message: Message, counter: TokenCounter) -> Message:
    """The message with as many tokens as it takes at most in any shape, less OVERHEAD. Stored counts leave out names,
    brackets and addresses, and may be of another encoding."""
    tokens = message.tokens if message.encoding == counter.name else counter.parts(message.parts)
    if message.name and len(message.name.encode()) > _SHORT_NAME:
        tokens += counter.known(message.name) + 1
    tokens += sum(_more(part, counter) for part in message.parts)
    return message if tokens == message.tokens else replace(message, tokens=tokens)


def _more(part: Json, counter: TokenCounter) -> int:
    if part["type"] == "text":
        text = part["text"]
        return (len(escaped(text)) - len(text)) // _ESCAPE * _ESCAPE if "<" in text else 0
    shown = plain_text([part])
    more = _BRACKETS + (len(escaped(shown)) - len(shown) if "<" in shown else 0)
    if part["type"] == "file":
        return more + counter.known(shown)
    return more + (counter.known(part["name"]) if part.get("name") else 0)
