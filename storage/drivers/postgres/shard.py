"""A shard of an installation: its database is opened at the start, or as soon as its server can be reached."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from layerlore.storage.core.errors import StorageBusy, StorageUnavailable
from layerlore.storage.core.health import Health
from layerlore.storage.core.hints import Notify
from layerlore.storage.core.transaction import Backend, ErasedBytes, P, ScopedFunction, StoreFunction, T, Whose
from layerlore.storage.drivers.postgres import backend
from layerlore.storage.drivers.postgres.database import PostgresDatabase, ServerAway

R = TypeVar("R")

AGAIN_SECONDS = 1.0
"""For so long after an attempt to open it failed, calls get the same answer."""


class Shard:
    """While its server is away, calls of its tenants fail with the reason, and nobody else's do."""

    backend: Backend = backend

    def __init__(self, name: str, open_cluster: Callable[[], Awaitable[PostgresDatabase]]) -> None:
        self.name = name
        self._open_cluster = open_cluster
        self._opened: PostgresDatabase | None = None
        self._opening = asyncio.Lock()
        self._failure: StorageUnavailable | None = None
        self._tried_at = 0.0
        self._listening: dict[object, tuple[ExitStack, Notify]] = {}
        # A shard that was never reached cannot be written: a look at it tries to open it.
        self._health_before = Health(self._look, self._look, f"the shard {name!r}", is_shared=True)

    async def open(self) -> PostgresDatabase:
        """Its database, which is opened unless it was before. Raises StorageUnavailable, whose text names the shard."""
        if self._opened is not None:
            return self._opened
        async with self._opening:
            if self._opened is None:
                if self._failure is not None and time.monotonic() - self._tried_at < AGAIN_SECONDS:
                    raise self._name(self._failure)
                try:
                    self._opened = await self._open_cluster()
                except StorageUnavailable as error:
                    self._failure = error
                    raise self._name(error) from error
                finally:
                    self._tried_at = time.monotonic()
                for stack, notify in self._listening.values():
                    stack.enter_context(self._opened.hints(notify))
            return self._opened

    async def open_if_there(self) -> None:
        """Open it unless its server is away. Raises StorageUnavailable for whatever else is wrong with it."""
        try:
            await self.open()
        except StorageUnavailable as error:
            if not isinstance(error.__cause__, ServerAway):
                raise

    @property
    def unfit(self) -> str:
        return "" if self._opened is None else self._opened.unfit

    @property
    def health(self) -> Health:
        return self._health_before if self._opened is None else self._opened.health

    @property
    def pool_size(self) -> int:
        return 0 if self._opened is None else self._opened.pool_size

    @property
    def in_use(self) -> int:
        return 0 if self._opened is None else self._opened.in_use

    async def read(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._call(lambda opened: opened.read(function, whose, *args, **kwargs))

    async def write(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._call(lambda opened: opened.write(function, whose, *args, **kwargs))

    async def read_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._call(lambda opened: opened.read_installation(function, *args, **kwargs))

    async def write_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._call(lambda opened: opened.write_installation(function, *args, **kwargs))

    @contextmanager
    def hints(self, notify: Notify) -> Iterator[None]:
        token = object()
        with ExitStack() as stack:
            if self._opened is not None:
                stack.enter_context(self._opened.hints(notify))
            self._listening[token] = (stack, notify)
            try:
                yield
            finally:
                del self._listening[token]

    async def rewrite_erased(self) -> ErasedBytes:
        return await (await self.open()).rewrite_erased()

    async def check_quickly(self, seconds: float) -> None:
        """Postgres checks what it reads by itself."""

    async def close(self) -> None:
        await self._health_before.close()
        if self._opened is not None:
            await self._opened.close()

    async def _look(self) -> None:
        await self.open()

    async def _call(self, call: Callable[[PostgresDatabase], Awaitable[R]]) -> R:
        opened = await self.open()
        try:
            return await call(opened)
        except StorageBusy:
            raise
        except StorageUnavailable as error:
            raise self._name(error) from error

    def _name(self, error: StorageUnavailable) -> StorageUnavailable:
        return type(error)(f"shard {self.name!r}: {error}")
