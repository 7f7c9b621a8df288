"""How long failed jobs wait, and when no model is asked at all: its budget is spent, its setup is wrong, or its provider
asked for a pause."""

import logging
from dataclasses import dataclass

from layerlore.extraction.chat.port import NOTHING, ChatFailed
from layerlore.storage.jobs.jobs import MOST_FAILURES

log = logging.getLogger(__name__)

FIRST_MS = 1_000
LONGEST_MS = 300_000
# So that the pause before the last attempt is the longest one.
_FACTOR: float = (LONGEST_MS / FIRST_MS) ** (1 / (MOST_FAILURES - 2))

OUTAGE = 3
"""After this many requests in a row without an answer, of any jobs, no model is asked for a while."""
OUTAGE_MS = 5_000


def retry_pause_ms(failures: int, chance: float, retry_after_ms: int | None = None) -> int:
    """Milliseconds until the next attempt, after this many failures in a row: from one second to five minutes, or as
    long as the provider asked for, if that is longer. ``chance`` (0 to 1) makes it up to a quarter longer, so that jobs
    that failed together do not come back together."""
    pause: float = min(FIRST_MS * _FACTOR ** (max(1, failures) - 1), LONGEST_MS)
    return round(max(pause, retry_after_ms or 0) * (1 + chance / 4))


@dataclass(frozen=True, slots=True)
class Pause:
    """Why no model is asked, and until when, in milliseconds since 1970."""

    reason: str
    until: int


class ModelPauses:
    """The present pause of one worker. Times are milliseconds since 1970."""

    def __init__(self) -> None:
        self._pause: Pause | None = None
        self._failures = 0

    def at(self, now: int) -> Pause | None:
        """The pause that holds now, if any."""
        return self._pause if self._pause is not None and self._pause.until > now else None

    def begin(self, reason: str, until: int) -> None:
        """Begin a pause, unless a longer one holds."""
        if self._pause is not None and self._pause.until >= until:
            return
        log.warning("no model is asked for a while: %s", reason)
        self._pause = Pause(reason, until)

    def note_failure(self, error: ChatFailed, now: int) -> None:
        """Note that a model gave no answer. The pause is what the provider asked for, else a guess."""
        if error.of_setup:
            self.begin(str(error), now + (error.retry_after_ms or LONGEST_MS))
            return
        if error.retry_after_ms:
            self.begin(str(error), now + error.retry_after_ms)
        if not error.retryable or error.spent != NOTHING:
            self._failures = 0  # the model is there: the answer or the request is at fault
        elif self.at(now) is None:  # during a pause, a failure of an earlier request says nothing new
            self._failures += 1
            if self._failures >= OUTAGE:
                pause = OUTAGE_MS * 2 ** min(self._failures - OUTAGE, 10)
                self.begin(str(error), now + min(pause, LONGEST_MS))

    def note_success(self) -> None:
        """Note that a model answered."""
        self._failures = 0
