"""When to look for changes: a hint says that something may have been committed, and whose it may be. It does not say
what was committed: a listener reads that."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from layerlore.storage.core.records import Scope

Concerns = Callable[[Scope], bool]
Notify = Callable[[Concerns], None]


def anybody(_: Scope) -> bool:
    """The hint for all watchers."""
    return True


class Listeners:
    """The functions that are called with each hint, on the event loop. They must not raise."""

    def __init__(self) -> None:
        self._notified: dict[object, Notify] = {}

    @contextmanager
    def joined(self, notify: Notify) -> Iterator[None]:
        """Call ``notify``, too, from now on until the context is left."""
        token = object()
        self._notified[token] = notify
        try:
            yield
        finally:
            del self._notified[token]

    def notify(self, concerns: Concerns) -> None:
        """Pass a hint to every listener."""
        for notify in list(self._notified.values()):
            notify(concerns)
