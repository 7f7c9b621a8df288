"""How long a job waits after it failed."""

from layerlore.storage.jobs import MOST_FAILURES

FIRST_MS = 1_000
LONGEST_MS = 300_000
# So that the pause before the last attempt is the longest one.
_FACTOR: float = (LONGEST_MS / FIRST_MS) ** (1 / (MOST_FAILURES - 2))


def pause_ms(failures: int, chance: float, retry_after_ms: int | None = None) -> int:
    """Milliseconds until the next attempt, after so many failures in a row: from one second to five minutes, or, if it
    is longer, as long as the provider said. ``chance`` (0 to 1) makes it up to a quarter longer, so that jobs that
    failed together do not come back together."""
    pause: float = min(FIRST_MS * _FACTOR ** (max(1, failures) - 1), LONGEST_MS)
    return round(max(pause, retry_after_ms or 0) * (1 + chance / 4))
