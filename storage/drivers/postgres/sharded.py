"""The tenants of one installation on several clusters: each transaction goes to the cluster of its tenant.

The home cluster knows which shard a tenant is on. Each cluster knows whether it serves a tenant, and each transaction
checks it: if a server's knowledge is old, the cluster refuses, nothing is written, and the server looks the place up
again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeVar

from layerlore.storage.core.errors import StorageBusy, StorageUnavailable, TenantElsewhere
from layerlore.storage.core.health import Health
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.transaction import (
    Backend,
    Database,
    ErasedBytes,
    Notify,
    P,
    ScopedFunction,
    StoreFunction,
    T,
    Whose,
    bound,
)
from layerlore.storage.drivers.dialect import HOME
from layerlore.storage.drivers.postgres import backend
from layerlore.storage.drivers.postgres.database import RETRY_DEADLINE, PostgresDatabase, ServerAway, report_pools
from layerlore.storage.drivers.postgres.places import check_places, find_place

R = TypeVar("R")

AGAIN_SECONDS = 1.0
"""For this long after a failed attempt to open it, calls get the same answer."""


class Shard:
    """While its server is away, only calls of its own tenants fail, with the reason."""

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

    async def version(self, scope: Scope) -> Hashable:
        return await self._call(lambda opened: opened.version(scope))

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


_MOST_KNOWN = 100_000
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5


U = TypeVar("U")


async def open_sharded(
    open_cluster: Callable[[U, str], Awaitable[PostgresDatabase]], home: U, shards: Mapping[str, U]
) -> "ShardedDatabase":
    """Open the home cluster and the shards. One whose server is away is opened once it is back.

    Raises what ``open_cluster`` raises for other reasons; its text names the shard.
    """
    at_home = await open_cluster(home, HOME)
    opened = {name: Shard(name, partial(open_cluster, urls, name)) for name, urls in shards.items()}
    whole = ShardedDatabase(at_home, opened)
    try:
        await at_home.read_installation(check_places, [HOME, *opened])
        # One after the other: the first error is then that of the shard that the settings name first.
        for shard in opened.values():
            await shard.open_if_there()
    except BaseException:
        await whole.close()
        raise
    return whole


class ShardedDatabase:
    """The home cluster and the shards by their names, which close with it."""

    def __init__(self, home: PostgresDatabase, shards: Mapping[str, Shard]) -> None:
        self._by_name: dict[str, PostgresDatabase | Shard] = {HOME: home, **shards}
        report_pools([*self._by_name.values()])
        self._at_home = home
        self._known: dict[str, str] = {}
        # Rows that stay at home, such as keys, are there also for a tenant that is elsewhere.
        self.home: Database = home.unchecked()
        self.clusters: Sequence[Database] = (self, *(_Cluster(self, shard) for shard in shards.values()))

    @property
    def backend(self) -> Backend:
        return self._at_home.backend

    @property
    def unfit(self) -> str:
        return next((each.unfit for each in self._by_name.values() if each.unfit), "")

    @property
    def health(self) -> Health:
        """The home cluster's: a shard that is away concerns its own tenants, and other servers could not reach it either."""
        return self._at_home.health

    async def read(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._on_cluster(
            bound(whose).tenant_id, lambda cluster: cluster.read(function, whose, *args, **kwargs)
        )

    async def write(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._on_cluster(
            bound(whose).tenant_id, lambda cluster: cluster.write(function, whose, *args, **kwargs)
        )

    async def read_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._at_home.read_installation(function, *args, **kwargs)

    async def write_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._at_home.write_installation(function, *args, **kwargs)

    async def cluster_of(self, tenant: Tenant) -> Database:
        cluster = await self._find(tenant.tenant_id)
        return self.clusters[[*self._by_name.values()].index(cluster)]

    async def version(self, scope: Scope) -> Hashable:
        return await self._on_cluster(scope.tenant_id, lambda cluster: cluster.version(scope))

    @contextmanager
    def hints(self, notify: Notify) -> Iterator[None]:
        with ExitStack() as stack:
            for cluster in self._by_name.values():
                stack.enter_context(cluster.hints(notify))
            yield

    async def rewrite_erased(self) -> ErasedBytes:
        return await self._at_home.rewrite_erased()

    async def check_quickly(self, seconds: float) -> None:
        """Postgres checks what it reads by itself."""

    async def close(self) -> None:
        await asyncio.gather(*(cluster.close() for cluster in self._by_name.values()))

    async def _on_cluster(self, tenant_id: str, call: Callable[[PostgresDatabase | Shard], Awaitable[R]]) -> R:
        give_up = time.monotonic() + RETRY_DEADLINE
        pause = _FIRST_PAUSE
        while True:
            try:
                return await call(await self._find(tenant_id))
            except TenantElsewhere:
                self._known.pop(tenant_id, None)
                if time.monotonic() + pause > give_up:
                    raise
            except StorageUnavailable:
                # The tenant may have left the cluster before it went away; the next call looks.
                self._known.pop(tenant_id, None)
                raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _find(self, tenant_id: str) -> PostgresDatabase | Shard:
        shard = self._known.get(tenant_id)
        if shard is None:
            shard = await self._at_home.read_installation(find_place, tenant_id)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[tenant_id] = shard
        cluster = self._by_name.get(shard)
        if cluster is None:
            del self._known[tenant_id]
            raise StorageUnavailable(
                f"the tenant is on the shard {shard!r}, which [[shards]] of this server does not name"
            )
        return cluster


class _Cluster:
    """A shard as the work that goes over all tenants of a cluster sees it: rows of the installation are this cluster's,
    and a tenant's own are wherever the tenant is by now."""

    def __init__(self, whole: ShardedDatabase, cluster: Shard) -> None:
        self._whole = whole
        self._cluster = cluster
        self.backend: Backend = cluster.backend
        self.home = whole.home
        self.read = whole.read
        self.write = whole.write
        self.cluster_of = whole.cluster_of
        self.version = whole.version
        self.read_installation = cluster.read_installation
        self.write_installation = cluster.write_installation
        self.hints = cluster.hints
        self.rewrite_erased = cluster.rewrite_erased
        self.check_quickly = cluster.check_quickly

    @property
    def unfit(self) -> str:
        return self._cluster.unfit

    @property
    def health(self) -> Health:
        return self._cluster.health

    @property
    def clusters(self) -> Sequence[Database]:
        return self._whole.clusters

    async def close(self) -> None:
        """It closes with the whole."""
