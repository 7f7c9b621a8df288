"""When no model is asked, and why: its budget is spent, its setup is wrong, its provider wants to be left alone."""

import logging
from dataclasses import dataclass

from layerlore.extraction.backoff import LONGEST_MS
from layerlore.extraction.chat.port import NOTHING, ThinkingFailed

log = logging.getLogger(__name__)

OUTAGE = 3
"""After so many requests in a row without any answer, of whatever jobs, the model is left alone for a while."""
OUTAGE_MS = 5_000


@dataclass(frozen=True, slots=True)
class Pause:
    """Why no model is asked, and until when, in milliseconds since 1970."""

    reason: str
    until: int


class Rest:
    """The pause of one worker. Times are milliseconds since 1970."""

    def __init__(self) -> None:
        self._pause: Pause | None = None
        self._failures = 0

    def at(self, now: int) -> Pause | None:
        """The pause that there is now."""
        return self._pause if self._pause is not None and self._pause.until > now else None

    def begin(self, reason: str, until: int) -> None:
        """A longer pause that has begun already holds."""
        if self._pause is not None and self._pause.until >= until:
            return
        log.warning("no model is asked for a while: %s", reason)
        self._pause = Pause(reason, until)

    def failed(self, error: ThinkingFailed, now: int) -> None:
        """A model gave no answer: the provider may have said how long to wait; else it is guessed."""
        if error.of_setup:
            self.begin(str(error), now + (error.retry_after_ms or LONGEST_MS))
            return
        if error.retry_after_ms:
            self.begin(str(error), now + error.retry_after_ms)
        if not error.retryable or error.spent != NOTHING:
            self._failures = 0  # it is there: what it said, or what it was asked, is at fault
        elif self.at(now) is None:  # else it was asked before the pause began: nothing new is known
            self._failures += 1
            if self._failures >= OUTAGE:
                self.begin(str(error), now + min(OUTAGE_MS * 2 ** min(self._failures - OUTAGE, 10), LONGEST_MS))

    def worked(self) -> None:
        """A model answered."""
        self._failures = 0
