"""Whether work grows faster than the text it is done on."""

import time
from collections.abc import Callable
from typing import Any

GROWTH = 2.6
"""CPU of twice the text, as a multiple of the text's. Linear work takes 2, sorting 2.2, tiktoken on one long word up to 2.5 on
a busy machine, and going back over the text takes 4."""
_MEASURABLE = 3_000_000
"""Nanoseconds of CPU from which two lengths are compared."""
_DOUBLINGS = 5
_ROUNDS = 4
LONGEST = 32_768
"""Characters within which work that takes less CPU than that is fast for any text."""


def measure_cpu(work: Callable[[Any], object], text: Any) -> int:
    """Nanoseconds that this thread computes."""
    begin = time.thread_time_ns()
    work(text)
    return time.thread_time_ns() - begin


def grows_too_fast(
    work: Callable[[Any], object], begin: Any, unit: Any, end: Any, *, doublings: int = _DOUBLINGS
) -> bool:
    """Whether each doubling of a text takes more than GROWTH times the CPU. The text, of characters or bytes, is a
    beginning, a unit many times over, and an end. One doubling that does not is enough to say no: other work on the
    machine makes single measurements longer, never shorter."""

    def text(length: int) -> Any:
        return begin + unit * (length // len(unit) + 1) + end

    length = 16
    while measure_cpu(work, text(length)) < _MEASURABLE:
        length *= 2
        if length > LONGEST:
            return False
    for doubled in range(doublings):
        short, long = text(length << doubled), text(length << (doubled + 1))
        # In turn, so that a busy moment makes both of them longer.
        pairs = [(measure_cpu(work, short), measure_cpu(work, long)) for _ in range(_ROUNDS)]
        if min(each for _, each in pairs) <= GROWTH * min(each for each, _ in pairs):
            return False
    return True
