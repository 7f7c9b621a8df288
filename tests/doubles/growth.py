"""How the work for an input grows with its length, however busy the machine is."""

import math
import time
from collections.abc import Callable

# Seconds.
_NOISE = 0.005
_ROUNDS = 3


def grows_in_step(work: Callable[[int], object], length: int) -> bool:
    """Whether work on an input of this length is about four times that on a quarter of it: with a square of the length it
    would be sixteen times as much. What comes between makes single measurements longer, so a growth that seems too fast is
    measured again; the quarter, where that would hide the growth, twice at once."""
    quarter, whole = _seconds(work, length // 4), math.inf
    for _ in range(_ROUNDS):
        whole = min(whole, _seconds(work, length))
        quarter = min(quarter, _seconds(work, length // 4))
        if whole < 9 * quarter + _NOISE:
            return True
    return False


def _seconds(work: Callable[[int], object], length: int) -> float:
    """Processor time."""
    start = time.process_time()
    work(length)
    return time.process_time() - start
