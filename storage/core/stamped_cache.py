"""The cache of values that are valid as long as what they were made of has not changed."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Stamp = TypeVar("Stamp")
Value = TypeVar("Value")


class StampedCache(Generic[Key, Stamp, Value]):
    """The values used last, each with the stamp of what it was made of. Threads may share it.

    It holds at most ``most`` values, and with ``size``, which gives the size of one, at most ``most_size`` of them
    together.
    """

    def __init__(self, most: int, *, size: Callable[[Value], int] | None = None, most_size: int = 0) -> None:
        self._most = most
        self._size = size
        self._most_size = most_size
        self._lock = Lock()
        # The value used last is at the end. A recall looks up a hundred values, so a lookup must cost little. Each
        # value is stored with its size at that time, since it may grow.
        self._held = OrderedDict[Key, tuple[tuple[Stamp, Value], int]]()
        self._sizes = 0

    def find(self, key: Key, stamp: Stamp) -> Value | None:
        """The value of the key; None if it has none of this stamp."""
        held = self.find_any(key)
        if held is None or held[0] != stamp:
            return None
        return held[1]

    def find_any(self, key: Key) -> tuple[Stamp, Value] | None:
        """The stamp and the value of the key, whatever the stamp is."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            self._held.move_to_end(key)
            return held[0]

    def keep(self, key: Key, stamp: Stamp, value: Value) -> Value:
        """Keep a value in place of the key's earlier one. Returns the value."""
        with self._lock:
            # The key's earlier value is out of date and goes, even if the new one is too large to be kept.
            self._drop(key)
            if self._size is None:
                size = 0
            else:
                size = self._size(value)
            if size > self._most_size:
                return value
            while self._held and (len(self._held) >= self._most or self._sizes + size > self._most_size):
                self._drop(next(iter(self._held)))
            self._held[key] = ((stamp, value), size)
            self._sizes += size
        return value

    def _drop(self, key: Key) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self._sizes -= held[1]

    def list_keys(self) -> list[Key]:
        """All keys, the one used last at the end."""
        with self._lock:
            return list(self._held)

    def forget(self, fits: Callable[[Key], bool]) -> None:
        """Forget the values whose keys fit."""
        with self._lock:
            for key in list(self._held):
                if fits(key):
                    self._drop(key)
