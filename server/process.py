"""The process behind the tools: what the first calls need is loaded in a thread while ``initialize`` is answered."""

import contextlib
import logging
import weakref
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio

from layerlore.server.interpreter import shorten_pauses, without_collecting
from layerlore.server.late import load
from layerlore.server.settings import Settings
from layerlore.server.stopping import StopRequest
from layerlore.storage.errors import LayerloreError, StorageUnavailable
from layerlore.storage.records import Scope

if TYPE_CHECKING:
    from layerlore.server.notifications import NotificationHub
    from layerlore.server.runtime import Runtime

log = logging.getLogger(__name__)

STARTING = "starting"


class Process:
    """What a lifespan yields: the settings at once, the runtime when it is there."""

    def __init__(self, settings: Settings, hub: "NotificationHub", stop: StopRequest | None = None) -> None:
        self.settings = settings
        # One new thread a session, for clients of the older protocol; on stdio the process is the session.
        self.session_threads: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._hub = hub
        self._stop = stop
        self._runtime: Runtime | None = None
        self._failure = ""
        self._settled = anyio.Event()

    async def unready(self) -> str:
        """Why calls cannot be served now, in words that anybody may read; "": they can. Takes seconds at most."""
        if self._runtime is None:
            return STARTING
        return await self._runtime.engine.database.health.ask()

    def masked(self, text: str) -> str:
        """An error's text, its secrets masked once the patterns are loaded: it may repeat what a caller sent."""
        return self._runtime.masked(text) if self._runtime is not None else text

    async def runtime(self) -> "Runtime":
        """Wait until the database is open. Raises StorageUnavailable if it could not be opened."""
        await self._settled.wait()
        if self._runtime is None:
            raise StorageUnavailable(f"the memory cannot be opened: {self._failure}")
        return self._runtime

    async def begin_watching(self, scope: Scope) -> None:
        """Mark where what is watched in the scope is now. Raises StorageUnavailable."""
        await (await self.runtime()).watcher.begin(scope)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Process"]:
        """Load and open in the background; close at the end."""
        shorten_pauses()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._open)
                try:
                    yield self
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            # Only now has an opening that was under way come to its end.
            with anyio.CancelScope(shield=True):
                if self._runtime is not None:
                    await self._runtime.close()

    async def _open(self) -> None:
        try:
            with without_collecting():
                module = await load("layerlore.server.runtime")
                # Not interrupted half way: what is opened must be closed.
                with anyio.CancelScope(shield=True):
                    runtime: Runtime = await module.open_runtime(self.settings, self._hub)
                    self._runtime = runtime
        except Exception as error:
            self._failure = str(error) if isinstance(error, LayerloreError) else "an unexpected error, see the log"
            log.critical("cannot start: %s", self._failure, exc_info=not isinstance(error, LayerloreError))
            if self._stop is not None:
                self._stop.ask(1)
            return
        finally:
            self._settled.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runtime.watcher.run)
            tasks.start_soon(runtime.tell_denials)
            await runtime.first_calls_answered()
            upkeep = await load("layerlore.server.upkeep")
            await upkeep.keep_up(runtime)
