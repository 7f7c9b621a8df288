"""When to look for changes: a hint says that something may have been committed, and whose it may be. It says nothing
of what; who is told reads that."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from layerlore.storage.records import Scope

Concerns = Callable[[Scope], bool]
Told = Callable[[Concerns], None]


def anybody(_: Scope) -> bool:
    """The hint that leaves nobody out."""
    return True


class Listeners:
    """Who is told of hints, on the event loop. They must not raise."""

    def __init__(self) -> None:
        self._told: dict[object, Told] = {}

    @contextmanager
    def joined(self, told: Told) -> Iterator[None]:
        """Tell ``told``, too, from now on until the context is left."""
        token = object()
        self._told[token] = told
        try:
            yield
        finally:
            del self._told[token]

    def tell(self, concerns: Concerns) -> None:
        for told in list(self._told.values()):
            told(concerns)
