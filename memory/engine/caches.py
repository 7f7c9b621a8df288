"""The caches of an engine: texts that a room has made and keeps, so that they are made once."""

from typing import Protocol, TypeVar, cast

from layerlore.storage.core.records import Scope


class Cache(Protocol):
    """A cache that a room keeps in the engine. It is made without arguments."""

    def forget(self, scope: Scope) -> None:
        """Forget what was made of a scope's texts, at least."""


C = TypeVar("C", bound=Cache)


class Caches:
    """One cache of each kind. The engine knows none of the kinds: a room asks for its own by its class."""

    def __init__(self) -> None:
        self._made: dict[type[Cache], Cache] = {}

    def of(self, kind: type[C]) -> C:
        """The cache of a kind, made if it is not there yet. Threads may ask at the same time."""
        found = self._made.get(kind)
        if found is None:
            found = self._made.setdefault(kind, kind())
        return cast("C", found)

    def forget(self, scope: Scope) -> None:
        """Have every cache forget a scope."""
        for cache in list(self._made.values()):
            cache.forget(scope)
