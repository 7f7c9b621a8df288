"""Which resources clients watch now: what a watcher has to look at, and when it has not to look at all."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from layerlore.storage.core.records import Scope

LIST = ""
"""Stands for the list of resources, which is watched as a URI is."""


class Interest:
    """Counts who watches what, in which scope. ``changed`` is called when the first begins to watch something in a
    scope, and when the last one has stopped."""

    def __init__(self) -> None:
        self.changed: Callable[[Scope, str], None] = lambda scope, uri: None
        self._watched: dict[Scope, Counter[str]] = {}
        self._turned = asyncio.Event()

    @property
    def scopes(self) -> Collection[Scope]:
        return self._watched.keys()

    def uris(self, scope: Scope) -> Collection[str]:
        """The URIs, each as its watchers wrote it, and perhaps LIST."""
        return self._watched.get(scope, {}).keys()

    def add(self, scope: Scope, uri: str) -> None:
        counts = self._watched.setdefault(scope, Counter())
        counts[uri] += 1
        if counts[uri] == 1:
            self._notify(scope, uri)

    def drop(self, scope: Scope, uri: str) -> None:
        """One less. It must have been added."""
        counts = self._watched[scope]
        counts[uri] -= 1
        if counts[uri] == 0:
            del counts[uri]
            if not counts:
                del self._watched[scope]
            self._notify(scope, uri)

    @contextmanager
    def hold(self, scope: Scope, uris: Collection[str]) -> Iterator[None]:
        """Watched while the context is entered."""
        for uri in uris:
            self.add(scope, uri)
        try:
            yield
        finally:
            for uri in uris:
                self.drop(scope, uri)

    async def until(self, *, somebody: bool) -> None:
        """Wait until somebody watches something, or nobody does anything."""
        while bool(self._watched) != somebody:
            await self._turned.wait()

    def _notify(self, scope: Scope, uri: str) -> None:
        self._turned.set()
        self._turned = asyncio.Event()
        self.changed(scope, uri)
