"""Episodes of events that repeat: an event is reported when an episode begins, and again only after a quiet time."""

import time
from collections.abc import Callable

QUIET_SECONDS = 60.0
"""An episode is over after this long without an event."""


class Episodes:
    """Episodes by name, such as an address or a tenant. ``clock`` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}

    def begins(self, name: str = "") -> bool:
        """Note an event. Returns whether it begins an episode."""
        now = self._clock()
        begins = now - self._last.get(name, -QUIET_SECONDS) >= QUIET_SECONDS
        if begins:  # drop the names of episodes that are over
            self._last = {each: last for each, last in self._last.items() if now - last < QUIET_SECONDS}
        self._last[name] = now
        return begins
