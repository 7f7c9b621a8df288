"""The lines of a message in the window, and what it may cost at most, without counting it again."""

from dataclasses import replace

from layerlore.memory.parts.parts import plain_text
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.text.quotation import indent_lines, quote_text
from layerlore.memory.text.trust import describe_speaker
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json, Message

OVERHEAD = 2
"""Tokens of a line beside its message's own, which have some for number and role: the break of the line, and one."""
# A number has a token for so many digits, and OVERHEAD has the first.
_DIGITS = 3
# Counting so many again costs little.
_SHORT = 100
# A part in brackets: "[tool result name: ...]".
_BRACKETS = 6
# Between two parts.
_BREAK = 2
# What "(" takes more than "<", and a space at the beginning of a line more than none.
_MORE_A_SIGN = 2
_SIGNS = ("<", "&", "[")
_PARTED = linear_re.compile(r"[\r\n](?=[\d\s])")


def render_message(message: Message) -> str:
    """``#12 user Anna: the text``; predefined messages have no number. Only its first line begins without a space, so
    that nothing in the text passes for another message."""
    number = f"#{message.seq} " if message.seq > 0 else ""
    return f"{number}{describe_speaker(message)}: {indent_lines(plain_text(message.parts, quote_text))}"


def weigh_message(message: Message, counter: TokenCounter) -> Message:
    """Give the message the most tokens that it takes, less OVERHEAD. A short one is counted as it is shown; stored counts
    leave out names, brackets and addresses, and may be of another encoding."""
    seen = (message.seq, message.role, message.name, message.tokens, message.encoding, repr(message.parts))
    tokens = counter.once(hash(seen), lambda: _count_tokens(message, counter))
    return message if tokens == message.tokens else replace(message, tokens=tokens)


def _count_tokens(message: Message, counter: TokenCounter) -> int:
    if message.tokens <= _SHORT:
        line = render_message(message)
        return max(counter.text(line), counter.text(f"{line}\n")) - OVERHEAD
    tokens = message.tokens if message.encoding == counter.name else counter.parts(message.parts)
    tokens += (len(str(message.seq)) - 1) // _DIGITS
    speaker = describe_speaker(message)
    if speaker != message.role:
        tokens += counter.known(speaker)
    return tokens + sum(_count_more(part, counter) for part in message.parts) + _BREAK * (len(message.parts) - 1)


def _count_more(part: Json, counter: TokenCounter) -> int:
    if part["type"] == "text":
        return _count_framing(part["text"])
    shown = plain_text([part])
    more = _BRACKETS + _count_framing(shown)
    if part["type"] == "file":
        return more + counter.known(shown)
    # The name of a call is counted with its arguments.
    return more + (counter.known(part["name"]) if part.get("name") and part["type"] != "tool_call" else 0)


def _count_framing(text: str) -> int:
    """What quoting and indenting a text may add: a break of a line and a space are one token, but before a digit and
    another break."""
    if text.isascii() and not any(sign in text for sign in _SIGNS):
        return len(_PARTED.findall(text))
    shown = quote_text(text)
    return len(_PARTED.findall(shown)) + _MORE_A_SIGN * sum(shown.count(sign) - text.count(sign) for sign in "(")
