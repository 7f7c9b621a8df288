"""The Postgres database: a pool of asyncpg connections, one transaction a unit, retried when a connection is lost."""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from copy import copy
from typing import Any, Protocol, TypeVar, cast

import asyncpg
from sqlalchemy import text

from layerlore.storage.core import metrics
from layerlore.storage.core.errors import StorageBusy, StorageUnavailable, TenantElsewhere
from layerlore.storage.core.health import Health
from layerlore.storage.core.installation import hmac_key, put_trial, remove_trial
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.scopes import scope_token
from layerlore.storage.core.statements import WRITES
from layerlore.storage.core.traces import TransactionMode, measured_transaction, measured_wait, span
from layerlore.storage.core.transaction import (
    Backend,
    ErasedBytes,
    Notify,
    OneCluster,
    P,
    ScopedFunction,
    StoreFunction,
    T,
    Whose,
    bound,
)
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.postgres import backend
from layerlore.storage.drivers.postgres.dialect import PostgresUrl, read_url
from layerlore.storage.drivers.postgres.hints import PostgresHints
from layerlore.storage.drivers.postgres.places import SHARDED, check_shard, migrate_postgres
from layerlore.storage.drivers.postgres.roles import RoleStanding, grant, read_standing
from layerlore.storage.drivers.postgres.transaction import (
    ELSEWHERE,
    IN_THE_WAY,
    LOST,
    PATIENCE,
    REFUSED,
    TOO_LONG,
    UNABLE,
    UNREADABLE_URL,
    Patience,
    PooledConnection,
    PostgresTx,
    beginning,
    unable,
    without_url,
)

RETRY_DEADLINE = 15.0
BUSY_SECONDS = 1.0
"""After this time a call that did not get its turn may be tried again."""
# Seconds that an attempt gets at least, even right before the deadline.
_LAST_TRY = 0.05
STATEMENT_SECONDS = 15.0
# The longest that a server that does not answer delays our start.
CONNECT_SECONDS = 10.0

R = TypeVar("R")


class ServerAway(StorageUnavailable):
    """The server cannot be reached."""


class _PoolFull(Exception):
    """No connection of the pool came free in time."""


class _ConnectionGone(ConnectionError):
    """asyncpg got a request on a connection that is closed."""


# One message with the COMMIT, which takes no parameters: all names are hexadecimal.
_MARK = """
INSERT INTO last_writes (slot, unit, written_at)
VALUES {rows}
ON CONFLICT (slot) DO UPDATE SET unit = excluded.unit, written_at = excluded.written_at;
"""
_MARK_ROW = "('{slot}', '{unit}', (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
# The seconds that a look waits for a connection: fewer than those after which it counts as failed.
_LOOK_SECONDS = 2.0
# The lock of a write, which only one of the whole table refuses.
_LOOK = "SET LOCAL lock_timeout TO 1000; LOCK TABLE messages IN ROW EXCLUSIVE MODE; ROLLBACK"
# Waits for a server process that is still at work on the slot's last unit.
_MARKED = """
INSERT INTO last_writes (slot, unit, written_at) VALUES ($1, '', 0)
ON CONFLICT (slot) DO UPDATE SET unit = last_writes.unit
RETURNING unit
"""
# Two commits to a scope that take different slots of it do not wait for each other.
_SLOTS_OF_SCOPE = 4
# Few scopes share their slots, and a slot's name says nothing about whose it is.
_SLOT_DIGITS = 4
_VERSION = text("SELECT slot, unit FROM last_writes WHERE slot = ANY(CAST(:slots AS text[]))").execution_options(
    **{WRITES: False}
)
_FORGET_MARKS = """
DELETE FROM last_writes WHERE slot IN (
    SELECT slot FROM last_writes
    WHERE written_at < (extract(epoch FROM clock_timestamp()) - 86400) * 1000 FOR UPDATE SKIP LOCKED
)
"""


class _OutcomeUnknown(Exception):
    """The connection was lost while COMMIT was on its way."""

    def __init__(self, value: Any, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.value = value


class _Mark:
    """The query that shows whether a write was committed: the unit's own name, in a slot of its own, and in one of the
    scope's if the unit changed what answers are made of."""

    def __init__(self, slot: str, whose: Scope | Tenant | None) -> None:
        self.slot = slot
        self.unit = uuid.uuid4().hex
        self.wrote = False  # whether the unit came as far as its COMMIT with something written
        self.changed_memory = False
        self._whose = whose

    @property
    def statement(self) -> str:
        """The statement that is committed with the unit; empty for a unit that wrote nothing."""
        if not self.wrote:
            return ""
        slots = [self.slot]
        if self.changed_memory:
            slots.append(_list_slots(self._whose)[int(self.slot, 16) % _SLOTS_OF_SCOPE])
        return _MARK.format(rows=", ".join(_MARK_ROW.format(slot=slot, unit=self.unit) for slot in slots))


def _list_slots(whose: Scope | Tenant | None) -> list[str]:
    """The slots of a scope; for a tenant or the installation those that count for every scope."""
    if isinstance(whose, Scope):
        mark = f"{int(scope_token(whose)) % 16**_SLOT_DIGITS:0{_SLOT_DIGITS}x}"
    else:
        mark = ""
    return [f"{mark}{number:x}" for number in range(_SLOTS_OF_SCOPE)]


class PostgresDatabase(OneCluster):
    """Open with ``open``; any number of replicas may share the database."""

    backend: Backend = backend

    def __init__(
        self,
        pool: "asyncpg.Pool[asyncpg.Record]",
        hints: PostgresHints,
        standing: RoleStanding,
        *,
        patience: Patience,
        is_pooled: bool,
        shard: str | None = None,
    ) -> None:
        self.standing = standing
        self.shard = shard
        self._pool = pool
        self._patience = patience
        self._is_pooled = is_pooled
        self._hints = hints
        self._units: set[asyncio.Task[Any]] = set()
        # By the monotonic clock, when a transaction ended well.
        self._last_served = 0.0
        # Slots are used again: last_writes needs a row for each write at one time, not for each write.
        self._free_slots: list[str] = []
        self.health = Health(self._look, self._try_to_write, "Postgres", is_shared=True)

    @property
    def unfit(self) -> str:
        return self.standing.unfit

    @property
    def pool_size(self) -> int:
        return self._pool.get_max_size()

    @property
    def in_use(self) -> int:
        """How many connections are in use."""
        return self._pool.get_size() - self._pool.get_idle_size()

    def unchecked(self) -> "PostgresDatabase":
        """The same connections, for rows of a tenant that stay on this cluster wherever the tenant is served."""
        other = copy(self)
        other.shard = None
        return other

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        pool_size: int = 10,
        listen_url: str = "",
        patience: Patience = PATIENCE,
        shard: str | None = None,
    ) -> "PostgresDatabase":
        """Connect, bring the tables up to date, and keep a pool. The URL's password is in no error and no log.

        ``listen_url``: past a pooler, for the connection that listens; "": the same. ``shard``: the cluster's name in an
        installation of several ("": the home cluster); None: it is alone.

        Raises ServerAway, another StorageUnavailable or DatabaseTooNew.
        """
        logging.getLogger("asyncpg.pool").setLevel(
            logging.CRITICAL
        )  # it prints a traceback for each refused connection
        try:
            address = read_url(url)
            pool = await _pool(address, pool_size, "layerlore" if shard is None else SHARDED)
        except (*LOST, *UNREADABLE_URL, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            kind = ServerAway if isinstance(error, LOST) else StorageUnavailable
            raise kind(f"cannot connect to Postgres: {without_url(error, url)}") from None
        try:
            # In a transaction: elsewhere a pooler may give each step of a statement another connection.
            async with pool.acquire() as connection, connection.transaction():
                await migrate_postgres(connection)
                await connection.execute(_FORGET_MARKS)
                key = await hmac_key(PostgresTx(connection))
                own = await read_standing(connection)
                await check_shard(connection, shard)
        except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError) as error:
            await pool.close()
            raise StorageUnavailable(
                f"Postgres: {error}. The role needs a schema in which it may create tables: its own database, or "
                "GRANT CREATE ON SCHEMA ...; or tables that another role made for it: layerlore migrate --owner-url"
            ) from None
        except UNABLE as error:
            await pool.close()
            raise StorageUnavailable(unable(error)) from error
        except BaseException:
            await pool.close()
            raise
        metrics.SCHEMA_VERSION.set(latest_version("postgres"))
        hints = PostgresHints(listen_url or url, key)
        opened = cls(pool, hints, own, patience=patience, is_pooled=address.is_pooled, shard=shard)
        if shard is None:
            report_pools([opened])
        return opened

    async def grant(self, role: str) -> None:
        """As the owner of the tables, let another role serve. Raises StorageUnavailable."""
        async with self._connection() as connection, connection.transaction():
            try:
                await grant(connection, role)
            except asyncpg.PostgresError as error:
                raise StorageUnavailable(f"Postgres: {error}") from None

    async def read(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._read(bound(whose), lambda tx: function(tx, whose, *args, **kwargs))

    async def write(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        with self.health.writing():
            return await self._write(bound(whose), lambda tx: function(tx, whose, *args, **kwargs))

    async def read_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._read(None, lambda tx: function(tx, *args, **kwargs))

    async def write_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.health.writing():
            return await self._write(None, lambda tx: function(tx, *args, **kwargs))

    async def _read(self, whose: Scope | Tenant | None, work: Callable[[PostgresTx], Awaitable[T]]) -> T:
        begin = beginning("READ ONLY", whose, self._patience, self.shard)

        async def once(give_up: float) -> T:
            async with self._connection(give_up, "read") as connection:
                try:
                    await connection.execute(begin)
                    return await work(PostgresTx(connection, is_pooled=self._is_pooled, shard=self.shard))
                finally:
                    if not _is_gone(connection):
                        # A read has nothing to commit.
                        await connection.execute("ROLLBACK")

        return await self._unit(self._until_done(once))

    async def _write(self, whose: Scope | Tenant | None, work: Callable[[PostgresTx], Awaitable[T]]) -> T:
        begin = beginning("READ WRITE", whose, self._patience, self.shard)
        mark = _Mark(self._free_slots.pop() if self._free_slots else uuid.uuid4().hex, whose)

        async def once(give_up: float) -> T:
            async with self._connection(give_up, "write") as connection:
                tx = PostgresTx(connection, is_pooled=self._is_pooled, access="READ WRITE", shard=self.shard)
                try:
                    await connection.execute(begin)
                    value = await work(tx)
                    await tx.send_waiting()
                except BaseException:
                    await _roll_back(connection)
                    raise
                mark.wrote, mark.changed_memory = tx.wrote, tx.changed_memory
                try:
                    with span("commit"):
                        # The mark is committed with the unit, so it shows whether a COMMIT without an answer happened.
                        await _commit(connection, mark.statement)
                except (*LOST, asyncpg.InterfaceError) as error:
                    # The server may have committed or not. Only a unit that wrote nothing may simply run again.
                    if mark.wrote:
                        raise _OutcomeUnknown(value, error) from error
                    raise
                except BaseException:
                    await _roll_back(connection)
                    raise
                return value

        async def unit() -> T:
            try:
                return await self._until_done(once, mark)
            finally:
                self._free_slots.append(mark.slot)
                # Also after an error: a write whose COMMIT got no answer may be there. A hint too many does no harm.
                if mark.wrote:
                    self._hints.committed(whose if isinstance(whose, Scope) else None)

        return await self._unit(unit())

    async def version(self, scope: Scope) -> Hashable:
        slots = [*_list_slots(scope), *_list_slots(None)]
        rows = await self._read(scope, lambda tx: tx.all(_VERSION, slots=slots))
        return self.shard, frozenset(tuple(row) for row in rows)

    def hints(self, notify: Notify) -> AbstractContextManager[None]:
        return self._hints.listening(notify)

    @asynccontextmanager
    async def _connection(
        self, give_up: float | None = None, mode: TransactionMode = "read"
    ) -> AsyncIterator[PooledConnection]:
        """A connection of the pool for one transaction, waited for until ``give_up`` by the monotonic clock. All errors
        of asyncpg after its loss are among LOST."""
        began = time.monotonic()
        if give_up is None:
            left = RETRY_DEADLINE
        else:
            left = max(give_up - began, _LAST_TRY)
        try:
            with measured_wait():
                connection = await self._pool.acquire(timeout=left)
        except TimeoutError as error:
            # asyncpg waits as long for a connection that is in use as for a server that does not answer. One may have
            # come free since the time was over; then other calls were served meanwhile.
            is_full = self._pool.get_idle_size() == 0 and self._pool.get_size() == self._pool.get_max_size()
            if is_full or self._last_served >= began:
                raise _PoolFull from error
            raise _ConnectionGone("Postgres did not answer") from error
        try:
            with measured_transaction(mode):
                yield connection
            self._last_served = time.monotonic()
        except asyncpg.InterfaceError as error:
            if _is_gone(connection):
                raise _ConnectionGone(str(error)) from error
            raise
        finally:
            # One that is lost by now did its work: an error here would have the unit run again after its commit.
            with suppress(*LOST, asyncpg.InterfaceError):
                await self._pool.release(connection)

    async def _unit(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a transaction to its end in a task of its own: a cancelled caller leaves nothing half done."""
        unit = asyncio.create_task(work)
        self._units.add(unit)
        unit.add_done_callback(self._forget)
        return await asyncio.shield(unit)

    def _forget(self, unit: asyncio.Task[Any]) -> None:
        self._units.discard(unit)
        # The error is retrieved, as asyncio logs one that no caller saw.
        if not unit.cancelled():
            unit.exception()

    async def _until_done(self, once: Callable[[float], Awaitable[R]], mark: _Mark | None = None) -> R:
        give_up = time.monotonic() + RETRY_DEADLINE
        delay = 0.02
        unknown: _OutcomeUnknown | None = None
        while True:
            try:
                # A unit that was committed must not run again: it would write twice.
                if unknown is not None and mark is not None and await self._was_committed(mark, give_up):
                    return cast("R", unknown.value)
                unknown = None
                return await once(give_up)
            except _OutcomeUnknown as lost:
                unknown, cause = lost, lost.__cause__
            except REFUSED as error:
                raise StorageUnavailable(f"Postgres refused the connection ({type(error).__name__})") from error
            except (*LOST, *IN_THE_WAY, *TOO_LONG, _PoolFull) as error:
                cause = error
            except UNABLE as error:
                raise StorageUnavailable(unable(error)) from error
            except asyncpg.PostgresError as error:
                if error.sqlstate == ELSEWHERE:
                    raise TenantElsewhere(BUSY_SECONDS) from error
                raise
            if time.monotonic() + delay > give_up:
                raise self._explain(cause, is_unknown=unknown is not None) from cause
            metrics.TX_RETRIES.add(type(cause).__name__.removeprefix("_"))
            await asyncio.sleep(delay)
            delay = min(delay * 2, 0.5)

    def _explain(self, cause: BaseException | None, *, is_unknown: bool) -> StorageUnavailable:
        """The error of a unit that was tried until the deadline. ``is_unknown``: it may have been committed."""
        if is_unknown:
            # The caller must not simply write again.
            return StorageUnavailable(
                f"Postgres could not be reached for {RETRY_DEADLINE:g} s ({type(cause).__name__}); "
                "the write may have happened: read before you write again"
            )
        if isinstance(cause, _PoolFull):
            most = self._pool.get_max_size()
            busy = f"all {most} connections to Postgres were in use for {RETRY_DEADLINE:g} s"
        elif isinstance(cause, IN_THE_WAY):
            busy = "another transaction holds what this call needs: a lock in Postgres did not come free"
        elif isinstance(cause, TOO_LONG):
            busy = f"Postgres needed more than {STATEMENT_SECONDS:g} s for a statement of this call"
        else:
            return StorageUnavailable(
                f"Postgres could not be reached for {RETRY_DEADLINE:g} s ({type(cause).__name__}); try again"
            )
        return StorageBusy(busy, BUSY_SECONDS)

    async def _look(self) -> None:
        """Whether a transaction can begin that writes messages. Raises StorageUnavailable, without trying again."""
        try:
            async with self._connection(time.monotonic() + _LOOK_SECONDS) as connection:
                await connection.execute(f"{beginning('READ WRITE', None, self._patience)}; {_LOOK}")
        except _PoolFull:
            # Others have the connections and use them, or a write will say that nothing was written for long.
            return
        except asyncpg.LockNotAvailableError as error:
            raise StorageUnavailable(
                "a table of the memory is locked in Postgres, by a migration or by hand"
            ) from error
        except (*LOST, *REFUSED, *UNABLE, *TOO_LONG) as error:
            raise StorageUnavailable(unable(error)) from error

    async def _try_to_write(self) -> None:
        await self._write(None, put_trial)
        await self._write(None, remove_trial)

    async def _was_committed(self, mark: _Mark, give_up: float) -> bool:
        """Ask the server how a transaction ended whose COMMIT got no answer."""
        async with self._connection(give_up) as connection, connection.transaction():
            return bool(await connection.fetchval(_MARKED, mark.slot) == mark.unit)

    async def rewrite_erased(self) -> ErasedBytes:
        """Postgres reuses the space by itself."""
        return "vacuum"

    async def check_quickly(self, seconds: float) -> None:
        """Postgres checks what it reads by itself."""

    async def close(self) -> None:
        await self.health.close()
        # The units of cancelled callers may still run, and they need the pool.
        if self._units:
            await asyncio.wait(self._units, timeout=RETRY_DEADLINE)
        await self._hints.close()
        await self._pool.close()


class PooledDatabase(Protocol):
    """How many connections a cluster may use, and how many are in use."""

    @property
    def pool_size(self) -> int: ...

    @property
    def in_use(self) -> int: ...


def report_pools(databases: Sequence[PooledDatabase]) -> None:
    """Have the metrics show the connections of these databases together."""
    metrics.POOL_SIZE.read_from(lambda: sum(database.pool_size for database in databases))
    metrics.POOL_IN_USE.read_from(lambda: sum(database.in_use for database in databases))


async def _pool(url: PostgresUrl, size: int, name: str) -> "asyncpg.Pool[asyncpg.Record]":
    async def leave(_: Any) -> None:
        """Nothing was set for the connection: all settings and locks of ours end with their transaction."""

    return await asyncpg.create_pool(
        url.dsn,
        min_size=1,
        max_size=size,
        timeout=CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS,
        server_settings={"application_name": name, "timezone": "UTC"},
        reset=leave,
        statement_cache_size=url.statements,
    )


async def _commit(connection: PooledConnection, mark: str) -> None:
    await connection.execute(f"{mark}COMMIT")


async def _roll_back(connection: PooledConnection) -> None:
    if not _is_gone(connection):
        await connection.execute("ROLLBACK")


def _is_gone(connection: PooledConnection) -> bool:
    """Whether a connection is closed; the pool takes a lost one back at once, and then it answers nothing more."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True
