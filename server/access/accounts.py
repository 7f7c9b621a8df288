"""What each principal and each tenant may still ask for, in a bounded number of accounts."""

from collections import OrderedDict
from collections.abc import Callable, Mapping

import anyio

from layerlore.server.access.buckets import Bucket

BURST_SECONDS = 2.0
"""Who was idle may ask for so many seconds' worth at once."""
MOST_ACCOUNTS = 10_000


class Account:
    """What one principal, or one tenant, may still ask for. ``buckets`` and ``turns``, what may run at once, have none for
    what is not limited, ``under_way`` counts what waits or runs, ``waiting`` what waits, ``listening`` what is open for
    as long as somebody listens."""

    __slots__ = ("buckets", "listening", "turns", "under_way", "waiting")

    def __init__(self, rates: Mapping[str, float], at_once: Mapping[str, int], at: float) -> None:
        self.buckets = {what: Bucket(rate, rate * BURST_SECONDS, at) for what, rate in rates.items() if rate}
        self.turns = {what: anyio.Semaphore(most) for what, most in at_once.items() if most}
        self.under_way = 0
        self.listening = 0
        self.waiting = 0

    def idle(self, at: float) -> bool:
        """Whether it is as a new one is."""
        return not self.under_way and all(bucket.full(at) for bucket in self.buckets.values())


class Accounts:
    """One account each, made when it is asked for. Of those that were used longest ago, the idle ones are dropped; beyond
    ``most``, also others none of whose calls is under way: they would be full again. ``rates`` are amounts a second; 0 is
    no limit. ``at_once`` is how many of what may run at a time; 0: any number."""

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
        # Two for each that comes: in the end, all that are idle go.
        for _ in range(2):
            if not self._kept:
                return
            name, oldest = next(iter(self._kept.items()))
            if oldest.under_way:
                self._kept.move_to_end(name)
            elif oldest.idle(at) or len(self._kept) >= self._most:
                del self._kept[name]
            else:
                return
