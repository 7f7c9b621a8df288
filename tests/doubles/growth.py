"""How the work for an input grows with its length, however busy the machine is."""

import time
from collections.abc import Callable

# Seconds.
_NOISE = 0.005


def grows_in_step(work: Callable[[int], object], length: int) -> bool:
    """Whether work on an input of this length is about four times that on a quarter of it: with a square of the length it
    would be sixteen times as much."""
    return _seconds(work, length) < 9 * _seconds(work, length // 4) + _NOISE


def _seconds(work: Callable[[int], object], length: int) -> float:
    """Processor time: the least of three, since whatever comes between does so in one of them."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work(length)
        times.append(time.process_time() - start)
    return min(times)
