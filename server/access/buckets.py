"""Token buckets: how much a caller may still ask for. Times are seconds of a monotonic clock, which is passed in."""

_NOTHING = 1e-9  # seconds: what rounding leaves


class Bucket:
    """Fills at ``rate`` a second up to ``burst``; made full.

    What is larger than the burst needs a full bucket and leaves it in debt: nothing is impossible, and who sends it
    pays for it afterwards. Over any time, no more is given than the burst (or the one larger amount) and the rate times
    that time.
    """

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate: float, burst: float, at: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = at

    def wait(self, amount: float, at: float) -> float:
        """Seconds until so much may be taken; 0: now."""
        self._fill(at)
        seconds = (min(amount, self._burst) - self._level) / self._rate
        return seconds if seconds > _NOTHING else 0.0

    def spend(self, amount: float, at: float) -> None:
        """Take so much, whatever there is: who comes later waits for what is taken ahead."""
        self._fill(at)
        self._level -= amount

    def take(self, amount: float, at: float) -> float:
        """Take so much if it may be taken now. Returns the seconds to wait; 0: it was taken."""
        seconds = self.wait(amount, at)
        if not seconds:
            self.spend(amount, at)
        return seconds

    def full(self, at: float) -> bool:
        self._fill(at)
        return self._level >= self._burst

    def _fill(self, at: float) -> None:
        if at > self._at:
            self._level = min(self._burst, self._level + (at - self._at) * self._rate)
            self._at = at
