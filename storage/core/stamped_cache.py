"""The cache of values that are valid as long as what they were made of has not changed."""

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from cachetools import LRUCache

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
        self._held: LRUCache[Key, tuple[Stamp, Value]]
        if size is None:
            self._held = LRUCache(most)
        else:
            self._held = LRUCache(most_size, lambda held: size(held[1]))

    def find(self, key: Key, stamp: Stamp) -> Value | None:
        """The value of the key; None if it has none of this stamp."""
        held = self.find_any(key)
        if held is None or held[0] != stamp:
            return None
        return held[1]

    def find_any(self, key: Key) -> tuple[Stamp, Value] | None:
        """The stamp and the value of the key, whatever the stamp is."""
        with self._lock:
            return self._held.get(key)

    def keep(self, key: Key, stamp: Stamp, value: Value) -> Value:
        """Keep a value in place of the key's earlier one. Returns the value."""
        with self._lock:
            # LRUCache raises for a value above its size. The key's earlier value is out of date and goes.
            if self._size is not None and self._size(value) > self._most_size:
                self._held.pop(key, None)
                return value
            self._held[key] = (stamp, value)
            # With ``size`` the LRUCache limits the sum of the sizes only, not the number of values.
            while len(self._held) > self._most:
                self._held.popitem()
        return value

    def list_keys(self) -> list[Key]:
        """All keys, the one kept first at the beginning."""
        with self._lock:
            return list(self._held)

    def forget(self, fits: Callable[[Key], bool]) -> None:
        """Forget the values whose keys fit."""
        with self._lock:
            for key in list(self._held):
                if fits(key):
                    del self._held[key]
