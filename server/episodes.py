"""When to say something that happens again and again: once, and once more after it was over for a while."""

import time
from collections.abc import Callable

QUIET_SECONDS = 60.0
"""For so long nothing has to happen before it counts as over."""


class Episodes:
    """By name, such as an address or a tenant. ``clock`` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}

    def begins(self, name: str = "") -> bool:
        """Note that it happened. Whether it is the first time of an episode."""
        now = self._clock()
        begins = now - self._last.get(name, -QUIET_SECONDS) >= QUIET_SECONDS
        if begins:  # the names of those that are over are forgotten
            self._last = {each: last for each, last in self._last.items() if now - last < QUIET_SECONDS}
        self._last[name] = now
        return begins
