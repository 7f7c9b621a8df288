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
"""Measurements of the longer text before a doubling counts as more than GROWTH."""
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
        if not _exceeds(work, short, long):
            return False
    return True


def _exceeds(work: Callable[[Any], object], short: Any, long: Any) -> bool:
    """Whether the longer text takes more than GROWTH times the CPU of the shorter one. The shorter one is measured before
    and after the longer one, so that no busy moment makes it alone look slow."""
    least_short, least_long = measure_cpu(work, short), measure_cpu(work, long)
    for _ in range(_ROUNDS - 1):
        least_short = min(least_short, measure_cpu(work, short))
        if least_long <= GROWTH * least_short:
            return False
        least_long = min(least_long, measure_cpu(work, long))
    return least_long > GROWTH * least_short
