"""Accounts of what each principal and each tenant may still ask for, made of token buckets. Their number is bounded.

Times are seconds of a monotonic clock, which is passed in.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping

import anyio

_NOTHING = 1e-9  # seconds, which rounding may leave


class Bucket:
    """A bucket that fills at ``rate`` a second up to ``burst``. A new one is full.

    An amount above the burst needs a full bucket and leaves it in debt: it is possible, but the sender waits for it
    afterwards. Over any time, no more is granted than the burst (or the one larger amount) and the rate times that time.
    """

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate: float, burst: float, at: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = at

    def wait(self, amount: float, at: float) -> float:
        """Seconds until the amount may be taken; 0: now."""
        self._fill(at)
        # The debt of a large amount is paid afterwards, so only a full bucket is needed for it.
        seconds = (min(amount, self._burst) - self._level) / self._rate
        if seconds > _NOTHING:
            return seconds
        return 0.0

    def spend(self, amount: float, at: float) -> None:
        """Take the amount even if the bucket has less: later requests wait for the debt."""
        self._fill(at)
        self._level -= amount

    def take(self, amount: float, at: float) -> float:
        """Take the amount if it may be taken now. Returns the seconds to wait; 0: it was taken."""
        seconds = self.wait(amount, at)
        if not seconds:
            self.spend(amount, at)
        return seconds

    def full(self, at: float) -> bool:
        self._fill(at)
        return self._level >= self._burst

    def _fill(self, at: float) -> None:
        # The clock of a caller may be older than that of the last one.
        if at > self._at:
            self._level = min(self._burst, self._level + (at - self._at) * self._rate)
            self._at = at


BURST_SECONDS = 2.0
"""An idle caller may use the amount of this many seconds at once."""
MOST_ACCOUNTS = 10_000


class Account:
    """The remaining requests of one principal or one tenant.

    ``buckets``: by what is counted; ``turns``: for what may run at a time; both only for what is limited.
    ``under_way`` counts the requests that wait or run, ``waiting`` those that wait, ``listening`` the open listen
    streams.
    """

    __slots__ = ("buckets", "listening", "turns", "under_way", "waiting")

    def __init__(self, rates: Mapping[str, float], at_once: Mapping[str, int], at: float) -> None:
        # A rate of 0 means no limit, so there is no bucket for it.
        self.buckets = {what: Bucket(rate, rate * BURST_SECONDS, at) for what, rate in rates.items() if rate}
        self.turns = {what: anyio.Semaphore(most) for what, most in at_once.items() if most}
        self.under_way = 0
        self.listening = 0
        self.waiting = 0

    def idle(self, at: float) -> bool:
        """Whether the account equals a new one."""
        return not self.under_way and all(bucket.full(at) for bucket in self.buckets.values())


class Accounts:
    """Accounts by name, made on first use.

    Idle accounts are dropped, the least recently used first; beyond ``most`` also others that have no request under way,
    which lose what they owe. ``rates``: amounts a second; 0 means no limit. ``at_once``: how many may run at a time;
    0: any number.
    """

    def __init__(
        self,
        rates: Mapping[str, float],
        clock: Callable[[], float],
        *,
        at_once: Mapping[str, int] | None = None,
        most: int = MOST_ACCOUNTS,
    ) -> None:
        self._rates = rates
        self._at_once = at_once or {}
        self._clock = clock
        self._most = most
        self._kept: OrderedDict[str, Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, name: str) -> Account:
        """The account of that name."""
        found = self._kept.get(name)
        if found is not None:
            self._kept.move_to_end(name)
            return found
        at = self._clock()
        self._make_room(at)
        made = self._kept[name] = Account(self._rates, self._at_once, at)
        return made

    def _make_room(self, at: float) -> None:
        # Check two accounts for each new one, so that in the end all idle ones are dropped.
        for _ in range(2):
            if not self._kept:
                return
            name, oldest = next(iter(self._kept.items()))
            # An account with requests under way counts them, so it must stay.
            if oldest.under_way:
                self._kept.move_to_end(name)
            elif oldest.idle(at) or len(self._kept) >= self._most:
                del self._kept[name]
            else:
                return
