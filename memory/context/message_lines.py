"""A message of the window as lines of text, and what it may cost at most, without counting it again."""

from collections.abc import Sequence
from dataclasses import replace

from layerlore.memory.parts import plain_text
from layerlore.memory.quoting import indented, quoted
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.trust import speaker_of
from layerlore.storage.records import Json, Message

OVERHEAD = 10
"""Tokens of a line beside its message's own: number, role, a short name, and the break of the line."""
# Longer ones are counted.
_SHORT_NAME = 8
# A part in brackets: "[tool result name: ...]".
_BRACKETS = 8
# What "(" takes more than "<", and a space at the beginning of a line more than none.
_MORE_A_SIGN = 2
_SIGNS = ("<", "&", "[")


def line(message: Message) -> str:
    """``#12 user Anna: the text``; predefined messages have no number. Only its first line begins without a space, so
    that nothing in the text passes for another message."""
    number = f"#{message.seq} " if message.seq > 0 else ""
    return f"{number}{speaker_of(message)}: {indented(plain_text(message.parts, quoted))}"


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
        return _framed(part["text"])
    shown = plain_text([part])
    more = _BRACKETS + _framed(shown)
    if part["type"] == "file":
        return more + counter.known(shown)
    return more + (counter.known(part["name"]) if part.get("name") else 0)


def _framed(text: str) -> int:
    """What quoting and indenting a text may add."""
    if text.isascii() and not any(sign in text for sign in _SIGNS):
        return text.count("\n") + text.count("\r")
    told = quoted(text)
    return told.count("\n") + _MORE_A_SIGN * sum(told.count(sign) - text.count(sign) for sign in "(")
