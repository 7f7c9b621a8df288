"""How long something that failed is left alone."""

from collections.abc import Callable

FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0


class Backoff:
    """After each failure in a row a pause twice as long. ``now`` gives seconds that never go back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pause = 0.0
        self._until = 0.0
        self.reason = ""

    def failed(self, reason: str) -> None:
        # Several that failed together are one failure.
        if not self.barred:
            self._pause = min(self._pause * 2 or FIRST_PAUSE, LONGEST_PAUSE)
            self._until = self._now() + self._pause
        self.reason = reason

    def worked(self) -> None:
        self._pause, self.reason = 0.0, ""

    @property
    def barred(self) -> str:
        """Why it is not to be tried now, and when it will be; empty when it may be tried."""
        left = self._until - self._now()
        return f"{self.reason}; tried again in {max(1, round(left))} s" if self.reason and left > 0 else ""
