"""JSON that must come back as it went in, whatever it is: as text that is stored and never looked into."""

import asyncio
from typing import Any

from layerlore.memory.acceptance import INT_DIGITS
from layerlore.memory.limits import Limits
from layerlore.storage.errors import InvalidInput, LimitExceeded
from layerlore.storage.json_text import to_json

# The depth of more text than this, in characters, is measured in a thread: the event loop must not wait for it.
_INLINE_CHARS = 4_000


async def exact_json(value: Any, where: str, most_bytes: int, limits: Limits) -> str:
    """The value as JSON text. NUL may be in it, other than in any other text here.

    Raises LimitExceeded beyond ``most_bytes`` and the usual depth, InvalidInput for lone surrogates, numbers that are
    not finite and integers of more than ``INT_DIGITS`` digits: those could not be sent back.
    """
    try:
        text = to_json(value)
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{where}: character {error.start} of its JSON is half of a surrogate pair, "
            f"U+{ord(error.object[error.start]):04X}; any Unicode text is allowed but lone surrogates"
        ) from None
    except ValueError:
        raise InvalidInput(
            f"{where}: has a number that is NaN, infinite, or an integer of more than {INT_DIGITS:,} digits; send such as "
            "a string"
        ) from None
    except RecursionError:
        raise _too_deep(where, limits) from None
    if size > most_bytes:
        raise LimitExceeded(f"{where}: {size:,} bytes of JSON; {most_bytes:,} are allowed")
    deep = len(text) > _INLINE_CHARS
    depth = await asyncio.to_thread(_depth, value) if deep else _depth(value)
    if depth > limits.json_depth:
        raise _too_deep(where, limits)
    return text


def _too_deep(where: str, limits: Limits) -> LimitExceeded:
    return LimitExceeded(f"{where}: nested more than {limits.json_depth} levels deep; {limits.json_depth} are allowed")


def _depth(value: Any) -> int:
    """How deep lists and objects lie in one another."""
    level, depth = [value], 0
    while level := [entry for entry in level if isinstance(entry, dict | list)]:
        depth += 1
        level = [inner for entry in level for inner in (entry.values() if isinstance(entry, dict) else entry)]
    return depth
