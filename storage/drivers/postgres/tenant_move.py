"""Moves a tenant from one cluster to another while it is in use.

The rows are copied, and the copy is brought up to date until few rows differ. Then the tenant's lock on the old cluster
keeps writes out while the last rows follow, and the same transaction notes there that the tenant is on the new cluster:
that commit decides. Before it, the old cluster serves the tenant as if nothing had happened, whenever the move ends.
After it, the move has to be finished: the home cluster notes the new place, the new cluster begins to serve, the old
rows go.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import asyncpg

from layerlore.storage.core.errors import Conflict, InvalidInput, StorageBusy, StorageUnavailable
from layerlore.storage.core.records import Tenant
from layerlore.storage.drivers.dialect import HOME, HOME_NAME
from layerlore.storage.drivers.postgres.dialect import read_url
from layerlore.storage.drivers.postgres.tenant_copy import (
    PARKED_MS,
    Connection,
    TenantCopy,
    TenantTable,
    bind,
    check_same_tables,
    of_tenant,
    read_tables,
    remove_journal,
    remove_tenant,
)
from layerlore.storage.drivers.postgres.transaction import UNREADABLE_URL, without_url

CONNECT_SECONDS = 10.0
_FEW_ROWS = 200
"""Once a copy finds no more than this number of rows to differ, the move keeps writes out."""
_MOST_TRIES = 5
_LOCK_MS = 5_000
"""How long the move waits for the writes under way. New writes are refused meanwhile, and tried again."""
_IDLE_MS = 30_000
"""After this time without a statement the old cluster lets writes in again, and the move has failed."""

Report = Callable[[str], None]

_PLACE = "SELECT shard, epoch FROM tenant_places WHERE tenant_id = $1"
_SET_PLACE = """
INSERT INTO tenant_places AS kept VALUES ($1, $2, $3)
ON CONFLICT (tenant_id) DO UPDATE SET shard = excluded.shard, epoch = excluded.epoch WHERE kept.epoch < excluded.epoch
"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1, 13))"
_LOCK_SHARED = "SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 13))"
_ALONE = "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 14))"
_UNPARK = f"UPDATE jobs SET due_at = due_at - {PARKED_MS} WHERE tenant_id = $1 AND due_at >= {PARKED_MS}"  # noqa: S608
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = 'layerlore'
"""


@dataclass(frozen=True, slots=True)
class TenantPlace:
    """Where a tenant is, by the number of moves."""

    shard: str
    epoch: int


@dataclass(frozen=True, slots=True)
class ClusterUrls:
    """``owner``: as the role that owns the tables; ``serving``: as the servers."""

    owner: str
    serving: str


async def move_tenant(clusters: Mapping[str, ClusterUrls], tenant_id: str, target: str, report: Report) -> None:
    """Move a tenant to a cluster, or finish a move that was interrupted. ``report`` is called after each step.

    Raises InvalidInput, Conflict, StorageBusy or StorageUnavailable.
    """
    if target not in clusters:
        raise InvalidInput(f"there is no shard {target!r}; there are: {', '.join(map(describe, clusters))}")
    async with AsyncExitStack() as stack:
        try:
            opened = {name: await stack.enter_async_context(_connected(urls.owner)) for name, urls in clusters.items()}
            lock = await stack.enter_async_context(_connected(clusters[HOME].owner))
            await stack.enter_async_context(_alone(lock, tenant_id))
            await _expect_sharded_servers(clusters[HOME].serving)
            await _Move(opened, Tenant(tenant_id), target, report).run()
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            raise StorageBusy("Postgres holds a lock that the move needs; run the command again", 1) from error
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise StorageUnavailable(
                f"the move was interrupted ({type(error).__name__}); run the command again to finish it"
            ) from error


def describe(shard: str) -> str:
    """The name of a cluster, as commands show and take it."""
    return shard or HOME_NAME


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    try:
        where = read_url(url)
        connection = await asyncpg.connect(
            where.dsn,
            timeout=CONNECT_SECONDS,
            statement_cache_size=where.statements,
            server_settings={"application_name": "layerlore move", "timezone": "UTC"},
        )
    except (OSError, *UNREADABLE_URL, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StorageUnavailable(f"cannot connect to Postgres: {without_url(error, url)}") from None
    try:
        yield connection
    finally:
        await connection.close(timeout=CONNECT_SECONDS)


@asynccontextmanager
async def _alone(connection: Connection, tenant_id: str) -> AsyncIterator[None]:
    """Keep other moves of the tenant out. Raises Conflict if one runs."""
    async with connection.transaction():
        await connection.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
        if not await connection.fetchval(_ALONE, tenant_id):
            raise Conflict(f"another move of the tenant {tenant_id!r} is under way")
        yield


async def _expect_sharded_servers(serving_url: str) -> None:
    """Raises Conflict if a server is connected that knows only of the home cluster: it would go on writing there."""
    # Only the same role sees the names of its connections.
    async with _connected(serving_url) as connection:
        others = await connection.fetchval(_OTHERS)
    if others:
        raise Conflict(
            f"{others} connections to the home cluster are of servers that know of no other cluster: restart them with "
            "the [[shards]] of these settings first"
        )


class _Move:
    def __init__(self, clusters: Mapping[str, Connection], tenant: Tenant, target: str, report: Report) -> None:
        self._clusters = clusters
        self._tenant = tenant
        self._to = target
        self._target = clusters[target]
        self._report = report
        self._tables: list[TenantTable] = []
        self._journal: list[TenantTable] = []

    async def run(self) -> None:
        tables = await read_tables(self._target)
        for connection in self._clusters.values():
            check_same_tables(await read_tables(connection), tables)
        self._tables = [table for table in tables if not table.only_grows]
        self._journal = [table for table in tables if table.only_grows]
        place = await self._decided()
        # An earlier move may have ended anywhere behind its decision.
        if place.epoch:
            await self._finish(place)
        if place.shard != self._to:
            await self._finish(await self._move_from(place))

    async def _decided(self) -> TenantPlace:
        """Where the tenant is, by the newest decision that any cluster knows of."""
        newest = TenantPlace(HOME, 0)
        for connection in self._clusters.values():
            row = await connection.fetchrow(_PLACE, self._tenant.tenant_id)
            if row is not None and row["epoch"] > newest.epoch:
                newest = TenantPlace(row["shard"], row["epoch"])
        if newest.shard not in self._clusters:
            raise StorageUnavailable(f"the tenant is on the shard {newest.shard!r}, which [[shards]] does not name")
        return newest

    async def _move_from(self, place: TenantPlace) -> TenantPlace:
        source = self._clusters[place.shard]
        copy = TenantCopy(
            self._target, self._tenant, self._tables, lambda target: self._expect_elsewhere(target, self._to)
        )
        before = sys.maxsize
        # Once a copy brings hardly fewer rows than the last one, they are those that are written meanwhile.
        while True:
            async with of_tenant(source, self._tenant, snapshot=True):
                await source.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
                differed = await copy.update(source)
            self._report(f"copied {differed:,} rows")
            if differed <= _FEW_ROWS or differed * 2 > before:
                break
            before = differed
        for _ in range(_MOST_TRIES):
            try:
                return await self._switch(source, place, copy)
            except asyncpg.LockNotAvailableError:
                # A write was under way for long. The others go on, and the copy falls behind only a little.
                await asyncio.sleep(1)
        raise StorageBusy("a write of the tenant is under way for long; run the command again", 10)

    async def _switch(self, source: Connection, place: TenantPlace, copy: TenantCopy) -> TenantPlace:
        """Keep writes out, copy the last rows, and decide."""
        moved = TenantPlace(self._to, place.epoch + 1)
        async with source.transaction():
            await source.execute(
                f"SET LOCAL lock_timeout TO {_LOCK_MS}; SET LOCAL idle_in_transaction_session_timeout TO {_IDLE_MS}"
            )
            await source.execute(_LOCK, self._tenant.tenant_id)
            # Other clusters decide nothing meanwhile, but an older move may have been finished since.
            if await self._decided() != place:
                raise Conflict("another move of the tenant was finished meanwhile; look at `layerlore tenants list`")
            await bind(source, self._tenant)
            self._report("writes wait")
            await copy.update(source)
            await self._pass_numbers(source)
            self._report("the copy is whole")
            await source.execute(_SET_PLACE, self._tenant.tenant_id, moved.shard, moved.epoch)
            # No worker may take them up on a cluster that the tenant has left.
            await source.execute("DELETE FROM jobs WHERE tenant_id = $1", self._tenant.tenant_id)
        self._report("decided")
        return moved

    async def _pass_numbers(self, source: Connection) -> None:
        """Make sure that the target never gives a number again that a row of the tenant has."""
        for table in (*self._tables, *self._journal):
            if not table.is_numbered:
                continue
            newest = await source.fetchval(
                f"SELECT max(row_id) FROM {table.name} WHERE tenant_id = $1",  # noqa: S608 - names of tables
                self._tenant.tenant_id,
            )
            async with self._target.transaction():
                # No row gets a number meanwhile, or one could be given twice.
                await self._target.execute(
                    f"SET LOCAL lock_timeout TO {_LOCK_MS}; LOCK TABLE {table.name} IN EXCLUSIVE MODE"
                )
                await self._target.execute(
                    "SELECT setval(sequence, greatest($2, nextval(sequence))) "
                    "FROM pg_get_serial_sequence($1, 'row_id') AS sequence",
                    table.name,
                    newest or 0,
                )

    async def _finish(self, place: TenantPlace) -> None:
        """After a decision: note it on the home cluster and all others, serve the tenant in its new place, remove the
        old rows."""
        tenant_id, served = self._tenant.tenant_id, self._clusters[place.shard]
        for name, connection in self._clusters.items():
            if name != place.shard:
                await connection.execute(_SET_PLACE, tenant_id, place.shard, place.epoch)
        self._report("other clusters know")
        async with of_tenant(served, self._tenant):
            await served.execute(_LOCK, tenant_id)
            await served.execute(_SET_PLACE, tenant_id, place.shard, place.epoch)
            await served.execute(_UNPARK, tenant_id)
        self._report("served in its new place")
        for name, connection in self._clusters.items():
            # The rows that an interrupted copy brought to the tenant's new place are of use.
            if name == place.shard or (name == self._to and place.shard != self._to):
                continue
            await self._remove(name, connection, served)
        self._report("old rows removed")

    async def _remove(self, name: str, connection: Connection, served: Connection) -> None:
        lines = TenantCopy(served, self._tenant, self._journal, _accept)
        async with of_tenant(connection, self._tenant, snapshot=True):
            await lines.update(connection)
        for journal in self._journal:
            await remove_journal(connection, served, self._tenant, journal)
        await remove_tenant(connection, self._tenant, self._tables, lambda old: self._expect_elsewhere(old, name))

    async def _expect_elsewhere(self, connection: Connection, name: str) -> None:
        """Raises Conflict if a cluster serves the tenant, so that its rows may not be changed by a move."""
        await connection.execute(_LOCK_SHARED, self._tenant.tenant_id)
        row = await connection.fetchrow(_PLACE, self._tenant.tenant_id)
        if (row["shard"] if row is not None else HOME) == name:
            raise Conflict("another move of the tenant was finished meanwhile; look at `layerlore tenants list`")


async def _accept(connection: Connection) -> None:
    """The journal only grows, so lines are added to it while the tenant is served."""
