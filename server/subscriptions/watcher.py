"""The watcher: it finds out what changed, whoever changed it, and notifies those who watch it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import anyio
from mcp.server.subscriptions import ServerEvent

from layerlore.server.subscriptions.interest import Interest
from layerlore.server.subscriptions.watched_scope import ScopeWatch
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.hints import Concerns
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.threads import changes

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
"""The least time between two looks, however many hints there are: a resource makes at most one piece of news a look."""
REST = 4
"""How many times as long as a look took nothing is looked at afterwards."""
AGAIN_SECONDS = 5.0
"""How long to wait when the database could not be read."""

Publish = Callable[[Scope, ServerEvent], Awaitable[None]]


class Watcher:
    """Looks when it is hinted to, and only while somebody watches something. ``begin`` marks where things are, so that
    what is committed after it is news; each look publishes what is past the marks and moves them on."""

    def __init__(self, database: Database, interest: Interest, publish: Publish) -> None:
        self._database = database
        self._interest = interest
        self._publish = publish
        self._watches: dict[Scope, ScopeWatch] = {}
        self._looking = anyio.Lock()
        self._due: set[Scope] = set()
        self._hinted = asyncio.Event()
        for scope in interest.scopes:
            for uri in interest.uris(scope):
                self._follow(scope, uri)
        interest.changed = self._follow

    async def run(self) -> None:
        """Look until cancelled. Raises nothing: what goes wrong is in the log, and is tried again."""
        while True:
            await self._interest.until(somebody=True)
            with self._database.hints(self.hint):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._look_when_hinted)
                    await self._interest.until(somebody=False)
                    tasks.cancel_scope.cancel()

    def hint(self, concerns: Concerns) -> None:
        """Something may have been committed."""
        self._due |= {scope for scope in self._watches if concerns(scope)}
        if self._due:
            self._hinted.set()

    async def begin(self, scope: Scope) -> None:
        """Mark what is watched in a scope and has no mark yet. What is committed after this is news.

        Raises StorageUnavailable.
        """
        async with self._looking:
            watch = self._watches.get(scope)
            unmarked = watch.unmarked() if watch is not None else None
            if watch is not None and unmarked is not None:
                watch.mark(unmarked, await self._database.read(changes.look, scope, unmarked))

    async def look(self, scope: Scope) -> None:
        """Publish what is past the marks of a scope. Raises StorageUnavailable."""
        async with self._looking:
            watch = self._watches.get(scope)
            if watch is None:
                return
            marked = watch.marked()
            news = watch.news(marked, await self._database.read(changes.look, scope, marked))
        for event in news:
            await self._publish(scope, event)

    async def _look_when_hinted(self) -> None:
        while True:
            await self._hinted.wait()
            self._hinted.clear()
            began = time.monotonic()
            failed = await self._look_at_due()
            if not failed:
                await anyio.sleep(max(LOOK_SECONDS, REST * (time.monotonic() - began)))
                continue
            await anyio.sleep(AGAIN_SECONDS)
            self._due |= failed
            self._hinted.set()

    async def _look_at_due(self) -> set[Scope]:
        """Returns the scopes that could not be looked at."""
        due, self._due = self._due, set()
        failed = set()
        for scope in due:
            try:
                await self.look(scope)
            except LayerloreError as error:
                log.warning("cannot look for changes, and tries again: %s", error)
                failed.add(scope)
            except Exception:
                log.exception("looking for changes failed; it is tried again")
                failed.add(scope)
        return failed

    def _follow(self, scope: Scope, uri: str) -> None:
        watch = self._watches.setdefault(scope, ScopeWatch())
        if uri in self._interest.uris(scope):
            watch.add(uri)
        else:
            watch.drop(uri)
        if not watch:
            del self._watches[scope]
