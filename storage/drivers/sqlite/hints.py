"""Hints on SQLite: this process reports its own commits; those of others show in ``PRAGMA data_version``."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.hints import Listeners, Notify, anybody
from layerlore.storage.drivers.sqlite import driver

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
