"""The SQLite database: one writer connection with group commit, and a few readers, each in its own thread."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import aiosqlite

from layerlore.storage.core import metrics
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.health import Health
from layerlore.storage.core.installation import put_trial, remove_trial, rewrite_owed, rewritten
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.traces import measured_transaction, measured_wait
from layerlore.storage.core.transaction import (
    Backend,
    ErasedBytes,
    Listeners,
    Notify,
    OneCluster,
    P,
    ScopedFunction,
    StoreFunction,
    T,
    Whose,
    anybody,
    bound,
)
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.sqlite import backend, driver
from layerlore.storage.drivers.sqlite.backup import WAY_OUT, quick_check
from layerlore.storage.drivers.sqlite.dialect import MEMORY
from layerlore.storage.drivers.sqlite.file import DatabaseFile, Displaced, migrate_sqlite, refuse_what_is_no_file
from layerlore.storage.drivers.sqlite.group_commit import BUSY, Writer
from layerlore.storage.drivers.sqlite.row_cache import PostingCache, RowCache
from layerlore.storage.drivers.sqlite.transaction import SqliteTx, drive
from layerlore.storage.drivers.sqlite.vector_cache import CodeCache, VectorCache

log = logging.getLogger(__name__)


POLL_SECONDS = 1.0
AGAIN_SECONDS = 5.0
"""How long to wait when the file could not be looked at."""


class PollingThread(Protocol):
    """A connection with a thread of its own."""

    async def hop(self, function: Callable[..., Any], *args: Any) -> Any: ...

    async def close(self) -> None: ...


class SqliteHints:
    """Looks at the file once a second for each listener, on a connection of its own; not at all without one.

    ``connect`` opens a connection; None for a database in memory, which no other process can change.
    """

    def __init__(self, connect: Callable[[], Awaitable[PollingThread]] | None) -> None:
        self._connect = connect
        self._listeners = Listeners()
        self._polls: set[asyncio.Task[None]] = set()

    def committed(self) -> None:
        """Notify the listeners of a commit of this process. Its scope is unknown: a group of calls is one commit."""
        self._listeners.notify(anybody)

    @contextmanager
    def listening(self, notify: Notify) -> Iterator[None]:
        """Call ``notify`` after every commit that others can see from now on, and once at the beginning."""
        with self._listeners.joined(notify):
            if self._connect is None:
                notify(anybody)
                yield
                return
            poll = asyncio.create_task(self._poll_for_ever(self._connect, notify))
            # The event loop holds its tasks only weakly.
            self._polls.add(poll)
            poll.add_done_callback(self._polls.discard)
            try:
                yield
            finally:
                poll.cancel()

    async def close(self) -> None:
        for poll in self._polls:
            poll.cancel()
        await asyncio.gather(*self._polls, return_exceptions=True)

    async def _poll_for_ever(self, connect: Callable[[], Awaitable[PollingThread]], notify: Notify) -> None:
        while True:
            try:
                await _poll(await connect(), notify)
            except (driver.DatabaseError, StorageUnavailable, OSError) as error:
                log.warning("cannot see whether other processes changed the database: %s", error)
            except Exception:
                log.exception("looking for changes of other processes failed; it is tried again")
            await asyncio.sleep(AGAIN_SECONDS)


async def _poll(thread: PollingThread, notify: Notify) -> None:
    try:
        seen = None  # so that the first look notifies: there is nothing yet to compare it with
        while True:
            version = await thread.hop(data_version)
            # A locked file may have changed: one hint too many does no harm.
            if version is None or version != seen:
                notify(anybody)
            seen = version
            await asyncio.sleep(POLL_SECONDS)
    finally:
        await thread.close()


def data_version(connection: driver.Connection) -> int | None:
    """A number that differs from the last one on this connection if another has committed; None while it is locked."""
    try:
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    except driver.DatabaseError as error:
        if driver.is_busy(error):
            return None
        raise
    return version


BUSY_DEADLINE = 10.0
READ_SECONDS = 5.0
_VERSION_SECONDS = 0.05

R = TypeVar("R")


class OwnThread:
    """A connection and the thread that owns it (aiosqlite's), used for whole functions instead of single statements."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    @classmethod
    async def start(cls, connect: Callable[[], driver.Connection]) -> "OwnThread":
        connection = aiosqlite.Connection(connect, iter_chunk_size=64)
        try:
            return cls(await connection)
        except BaseException:
            # aiosqlite asks its thread to end and does not wait: it could outlive the event loop that it answers to.
            connection._thread.join()
            raise

    async def hop(self, function: Callable[..., R], *args: Any) -> R:
        """Run ``function(connection, *args)`` in the thread. It runs to its end even if the caller is cancelled."""
        # aiosqlite has no public way to run a function of one's own; a test holds this one to what it does here.
        return cast("R", await self._connection._execute(function, self._connection._conn, *args))  # type: ignore[no-untyped-call]

    def interrupt(self) -> None:
        """Stop the statement that is running, from any thread."""
        self._connection._conn.interrupt()

    async def close(self) -> None:
        """End the thread; it has ended on return, even where the caller is cancelled meanwhile."""
        ending = asyncio.ensure_future(self._connection.close())
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError as error:
                # A thread that goes on would answer to an event loop that may be closed by then.
                cancelled = error
        if cancelled:
            raise cancelled
        ending.result()


@dataclass(frozen=True, slots=True)
class SqliteLibrary:
    """The library that opens a file, and its own ways: SQLite itself, or another library that speaks its SQL.

    ``connect`` takes the path, ``synchronous`` and ``read_only``. Its connections have the methods of Python's
    ``sqlite3`` and raise the errors of ``driver``.
    """

    connect: Callable[..., driver.Connection] = driver.connect
    backend: Backend = backend


def _read_unit(
    connection: driver.Connection,
    start: Callable[[SqliteTx], Coroutine[Any, Any, R]],
    backend: Backend,
    codes: CodeCache,
    postings: PostingCache,
    rows: RowCache,
    vectors: VectorCache,
) -> tuple[R, set[str]]:
    """The unit's answer, and the damaged part of the rows that it read."""
    connection.execute("BEGIN")
    try:
        tx = SqliteTx(
            connection,
            backend=backend,
            leaves_out=True,
            codes=codes,
            postings=postings,
            rows=rows,
            vectors=vectors,
        )
        return drive(start(tx)), tx.damage
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class SqliteDatabase(OneCluster):
    """Open with ``open``; several processes may share the file."""

    unfit = ""

    def __init__(
        self,
        path: str,
        writer: OwnThread,
        readers: list[OwnThread],
        file: DatabaseFile | None,
        library: SqliteLibrary = SqliteLibrary(),
    ) -> None:
        self.path = path
        self.backend = library.backend
        self._connect = library.connect
        self._writer_thread = writer
        self._file = file
        self._hints = SqliteHints(None if path == MEMORY else self._another)
        self._writer = Writer(writer.hop, BUSY_DEADLINE, self._hints.committed, self._check_file, self.backend)
        self.health = Health(self._look, self._try_to_write, path)
        self._readers = readers
        self._codes, self._postings = CodeCache(), PostingCache()
        self._rows, self._vectors = RowCache(), VectorCache()
        # The reader that was used last has the pages in its cache, so it goes first.
        self._idle: asyncio.Queue[OwnThread] = asyncio.LifoQueue()
        for reader in readers:
            self._idle.put_nowait(reader)
        metrics.POOL_SIZE.set(len(readers))
        metrics.POOL_IN_USE.read_from(lambda: len(readers) - self._idle.qsize())
        metrics.SCHEMA_VERSION.set(latest_version("sqlite"))
        # Processes on one machine see each other's commits in the file itself.
        metrics.LISTENER_CONNECTED.set(1)

    @classmethod
    async def open(
        cls,
        path: str,
        *,
        synchronous: str = "FULL",
        readers: int = 2,
        library: SqliteLibrary = SqliteLibrary(),
    ) -> "SqliteDatabase":
        """Open the file (made, 0600, when it is not there), bring its tables up to date, and start the threads.

        ``path`` is a file's path or ``:memory:``. Raises StorageUnavailable or DatabaseTooNew.
        """
        try:
            if path != MEMORY:
                refuse_what_is_no_file(Path(path))
                driver.create_private_file(Path(path))
            return await cls._open(path, synchronous, readers, library)
        except (driver.DatabaseError, OSError) as error:
            if driver.is_damage(error):
                way_out = f"; {WAY_OUT}"
            else:
                way_out = ""
            raise StorageUnavailable(
                f"cannot open the SQLite database {path}: {driver.describe_error(error)}{way_out}"
            ) from error

    @classmethod
    async def _open(cls, path: str, synchronous: str, readers: int, library: SqliteLibrary) -> "SqliteDatabase":
        connect = partial(library.connect, path, synchronous=synchronous)
        give_up = time.monotonic() + BUSY_DEADLINE
        # Looked at before it is opened: what takes its place from then on is noticed.
        if path == MEMORY:
            file = None
        else:
            file = DatabaseFile(path)
        writer = await _until_free(lambda: OwnThread.start(connect), give_up)
        started: list[OwnThread] = []
        try:
            await _until_free(lambda: writer.hop(driver.use_write_ahead_log), give_up)
            await _until_free(lambda: writer.hop(migrate_sqlite), give_up)
            if file is not None:
                file.find_log()
            for _ in range(readers if path != MEMORY else 0):
                started.append(await _until_free(lambda: OwnThread.start(partial(connect, read_only=True)), give_up))
            if file is not None:
                file.check()
        except BaseException:
            for thread in (*started, writer):
                await thread.close()
            raise
        # A database in memory belongs to one connection: its reads take turns with its writes.
        return cls(path, writer, started or [writer], file, library)

    async def read(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self.read_installation(function, whose, *args, **kwargs)

    async def write(
        self, function: ScopedFunction[Whose, P, T], whose: Whose, /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._write(bound(whose), lambda tx: function(tx, whose, *args, **kwargs))

    async def read_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        start = cast("Callable[[SqliteTx], Coroutine[Any, Any, T]]", lambda tx: function(tx, *args, **kwargs))
        with measured_wait():
            reader = await self._idle.get()
        # A unit of its own: a caller that is cancelled does not put a reader back that is still at work.
        unit = asyncio.create_task(self._read_on(reader, start))
        unit.add_done_callback(_retrieved)
        return await asyncio.shield(unit)

    async def _read_on(self, reader: OwnThread, start: Callable[[SqliteTx], Coroutine[Any, Any, T]]) -> T:
        # A reader that stays too long keeps the write-ahead log from being reused, so that it grows without end.
        alarm = asyncio.get_running_loop().call_later(READ_SECONDS, reader.interrupt)
        try:
            # The unit runs in another thread, and reads the time zone of the call there.
            unit = partial(
                copy_context().run,
                _read_unit,
                start=start,
                backend=self.backend,
                codes=self._codes,
                postings=self._postings,
                rows=self._rows,
                vectors=self._vectors,
            )
            with measured_transaction("read"):
                value, damage = await _until_free(lambda: reader.hop(unit))
            for found in damage:
                self.health.damaged(found, WAY_OUT)
            return value
        except driver.DatabaseError as error:
            if driver.is_defect(error):
                raise
            if driver.is_damage(error):
                self.health.damaged(f"something that was read: {driver.describe_error(error)}", WAY_OUT)
            raise StorageUnavailable(f"the database could not be read: {driver.describe_error(error)}") from error
        finally:
            alarm.cancel()
            self._idle.put_nowait(reader)

    async def write_installation(self, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._write(None, lambda tx: function(tx, *args, **kwargs))

    async def _write(self, whose: Scope | Tenant | None, work: Callable[[SqliteTx], Awaitable[T]]) -> T:
        start = cast("Callable[[SqliteTx], Coroutine[Any, Any, T]]", work)
        with self.health.writing():
            try:
                with measured_transaction("write"):
                    return cast("T", await self._writer.submit(start, whose))
            except Displaced:
                await self._save_log()
                raise

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check()

    async def _look(self) -> None:
        self._check_file()
        if self._file is not None and self._file.no_room():
            raise StorageUnavailable("the disk is full")

    async def _try_to_write(self) -> None:
        """Raises StorageUnavailable."""
        await self._writer.submit(put_trial)
        await self._writer.submit(remove_trial)

    async def _save_log(self) -> None:
        """If only the log was removed, put its content into the file, before its last handle is closed."""
        if self._file is not None and self._file.log_can_be_saved:
            with suppress(driver.DatabaseError):
                await self._writer_thread.hop(driver.save_log)

    async def _another(self) -> OwnThread:
        """One more connection that reads. Raises Displaced rather than open another file, or begin another log."""
        self._check_file()
        thread = await OwnThread.start(partial(self._connect, self.path, synchronous="NORMAL", read_only=True))
        try:
            # The file may have been replaced between the first look and the opening.
            self._check_file()
        except Displaced:
            await thread.close()
            raise
        return thread

    async def version(self, scope: Scope) -> Hashable | None:
        try:
            # A long write, or a file that is being rewritten, must not hold up the caller.
            async with asyncio.timeout(_VERSION_SECONDS):
                return await self._writer_thread.hop(self._read_version, scope)
        except (driver.DatabaseError, TimeoutError):
            # Readers get the reason.
            return None

    def _read_version(self, connection: driver.Connection, scope: Scope) -> Hashable | None:
        """The version of the scope, in the writer's thread: between two of its transactions."""
        # On the connection that writes, the number changes only if another process has committed.
        others = data_version(connection)
        if others is None:
            return None
        return others, self._writer.versions.of(scope)

    def hints(self, notify: Notify) -> AbstractContextManager[None]:
        return self._hints.listening(notify)

    async def rewrite(self) -> bool:
        """Write the file anew, so that nothing erased is left in its bytes. Returns whether the log is empty, too.

        For after ``restoration.erase_expired``; writes wait meanwhile. Raises StorageUnavailable.
        """
        self._check_file()
        try:
            return await _until_free(lambda: self._writer_thread.hop(driver.rewrite))
        except driver.DatabaseError as error:
            raise StorageUnavailable(f"the database could not be rewritten: {driver.describe_error(error)}") from error

    async def rewrite_erased(self) -> ErasedBytes:
        """Rewrite the file if bytes of what was erased may be left in it."""
        owed = await self.read_installation(rewrite_owed)
        if owed is None:
            return "erased"
        try:
            is_rewritten = await self.rewrite()
        except StorageUnavailable as error:
            log.warning("what was erased may have left bytes in the file; it is rewritten later: %s", error)
            return "owed"
        if not is_rewritten:
            return "owed"
        # With the count from before the rewrite: something erased during it stays owed.
        await self.write_installation(rewritten, owed)
        return "erased"

    async def check_quickly(self, seconds: float) -> None:
        """Look for damage in the file for at most ``seconds``; ``health`` reports the result. Raises
        StorageUnavailable."""
        if self._file is None:
            return
        try:
            thread = await self._another()
        except (driver.DatabaseError, OSError) as error:
            raise StorageUnavailable(f"the database could not be checked: {driver.describe_error(error)}") from error
        try:
            for found in await thread.hop(quick_check, seconds):
                self.health.damaged(found, WAY_OUT)
        finally:
            await thread.close()

    async def integrity_problems(self) -> list[str]:
        """The faults that SQLite's own checks find in the file; empty when all is well."""
        return await self._writer_thread.hop(driver.integrity_problems)

    async def close(self) -> None:
        await self.health.close()
        # The writer ends before the hints, since its last commits still give some.
        await self._writer.finish()
        await self._hints.close()
        for thread in {*self._readers, self._writer_thread}:
            await thread.close()


def _retrieved(unit: asyncio.Task[Any]) -> None:
    """A unit whose caller was cancelled has no caller left to see its error."""
    if not unit.cancelled():
        unit.exception()


async def _until_free(attempt_once: Callable[[], Coroutine[Any, Any, R]], give_up: float | None = None) -> R:
    """Try until no other connection holds the lock, or until ``give_up`` by the monotonic clock (BUSY_DEADLINE seconds
    from now); waits outside the threads."""
    if give_up is None:
        give_up = time.monotonic() + BUSY_DEADLINE
    attempt = 0
    while True:
        attempt += 1
        try:
            return await attempt_once()
        except driver.DatabaseError as error:
            if not driver.is_busy(error) or time.monotonic() > give_up:
                raise
        metrics.TX_RETRIES.add(BUSY)
        await asyncio.sleep(driver.retry_delay(attempt))
