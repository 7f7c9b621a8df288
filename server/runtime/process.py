"""The process behind the tools: while the server answers ``initialize``, a thread loads the modules for the first calls."""

import contextlib
import logging
import os
import weakref
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

import anyio

from layerlore.memory.engine.status_answers import ProcessState
from layerlore.server.access.caller import Caller
from layerlore.server.access.credentials import Principal
from layerlore.server.process.interpreter import pause_collection, share_one_heap, shorten_pauses
from layerlore.server.process.late_imports import load_for
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.relay.channels import find_conversation
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.declaration import Action
from layerlore.storage.core.errors import LayerloreError, StorageUnavailable
from layerlore.storage.core.records import Json, Scope

if TYPE_CHECKING:
    from layerlore.server.runtime.runtime import Runtime
    from layerlore.server.subscriptions.notifications import NotificationHub

log = logging.getLogger(__name__)

STARTING = "starting"


class Process:
    """The value that a lifespan yields: it has the settings at once, and the runtime once the database is open."""

    def __init__(
        self,
        settings: Settings,
        hub: "NotificationHub",
        stop: StopRequest | None = None,
        describe: Callable[[], ProcessState] | None = None,
    ) -> None:
        self.settings = settings
        self._describe = describe
        # A new thread for each session of the older protocol; on stdio the process is the session.
        self.session_threads: MutableMapping[Any, str] = weakref.WeakKeyDictionary()
        self._hub = hub
        self._stop = stop
        self._runtime: Runtime | None = None
        self._failure = ""
        self._settled = anyio.Event()

    @property
    def conversation(self) -> str:
        """The conversation that the host named when it launched this process; "" if it named none."""
        return find_conversation(os.environ)

    async def unready(self) -> str:
        """The reason why this server cannot serve calls now while another one could; "" without one. Any caller may read it.
        Takes seconds at most."""
        if self._runtime is None:
            return STARTING
        health = self._runtime.engine.database.health
        reason = await health.ask()
        if health.is_away:
            return ""
        return reason

    async def find_database_fault(self) -> str:
        """The reason why the database cannot be written now; "" without one, or if it is not open yet. Takes seconds at
        most."""
        if self._runtime is None:
            return ""
        return await self._runtime.engine.database.health.ask()

    def mask(self, text: str) -> str:
        """An error's text, which may quote the caller, with secrets masked once the patterns are loaded."""
        if self._runtime is not None:
            return self._runtime.mask(text)
        return text

    async def runtime(self) -> "Runtime":
        """Wait until the database is open. Raises StorageUnavailable if it could not be opened."""
        # Calls that come during the start wait here instead of being refused.
        await self._settled.wait()
        if self._runtime is None:
            raise StorageUnavailable(f"the memory cannot be opened: {self._failure}")
        return self._runtime

    async def act(self, name: str, function: Action, caller: Caller, values: Json, given: frozenset[str]) -> Any:
        """Run the function of a tool, a resource or a prompt. Raises LayerloreError, or a defect."""
        return await (await self.runtime()).act(name, function, caller, values, given, self.settings)

    async def record_refusal(self, principal: Principal, *, tool: str, client: str, error: Exception) -> None:
        """Record a refused call in the journal. Raises StorageUnavailable."""
        await (await self.runtime()).record_refusal(principal, tool=tool, client=client, error=error)

    async def is_captured(self, client: str) -> bool:
        """Whether hooks store the conversations of this client: only the shared server has hooks."""
        return False

    async def begin_watching(self, scope: Scope) -> None:
        """Begin to watch the scope from its current state. Raises StorageUnavailable."""
        await (await self.runtime()).watcher.begin(scope)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Process"]:
        """Load and open in the background; close at the end."""
        # Before anything is loaded, since the imports make most of the process's objects.
        shorten_pauses()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._open)
                try:
                    yield self
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            # By now an opening that was under way has finished. The shield protects the closing of the database from the
            # cancellation that ends the server.
            with anyio.CancelScope(shield=True):
                if self._runtime is not None:
                    await self._runtime.close()

    async def _open(self) -> None:
        try:
            share_one_heap()
            with pause_collection():
                await load_for(_open_runtime)
                # Shielded, so that an opened database is always closed.
                with anyio.CancelScope(shield=True):
                    runtime = await _open_runtime(self.settings, self._hub)
                    runtime.describe = self._describe or runtime.describe
                    self._runtime = runtime
        except Exception as error:
            self._failure = str(error) if isinstance(error, LayerloreError) else "an unexpected error, see the log"
            log.critical("cannot start: %s", self._failure, exc_info=not isinstance(error, LayerloreError))
            # A failed start ends the process, since no call could ever be served.
            if self._stop is not None:
                self._stop.ask(1)
            return
        finally:
            # Set also after a failure, so that waiting calls get an error.
            self._settled.set()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runtime.watcher.run)
            tasks.start_soon(runtime.report_denials)
            tasks.start_soon(runtime.keep_counts)
            # Background work would compete with the first calls for the processor and the disk.
            await runtime.first_calls_answered()
            await load_for(_keep_up)
            await _keep_up(runtime)


async def _open_runtime(settings: Settings, hub: "NotificationHub") -> "Runtime":
    from layerlore.server.runtime.runtime import open_runtime

    return await open_runtime(settings, hub)


async def _keep_up(runtime: "Runtime") -> None:
    from layerlore.server.runtime.upkeep import keep_up

    await keep_up(runtime)
