"""Hints on Postgres: NOTIFY after the commit, and LISTEN, on one direct connection a process, beside the pool.

Inside the transactions that write it would serialise them all, since a commit that notifies takes a lock of the whole
database. The notifications are digests under the installation's key: they say nothing to other users of the server,
and the channel is the installation's own.
"""

import asyncio
import hashlib
import hmac
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import lru_cache
from typing import Any, TypeAlias

import asyncpg

from layerlore.storage.core import metrics
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Listeners, Notify, anybody
from layerlore.storage.drivers.postgres.dialect import read_url

log = logging.getLogger(__name__)

BATCH_SECONDS = 0.05
"""The least time between two notifications of a process."""
MOST_SCOPES = 400
"""The most scopes in one notification, whose text Postgres limits to 8,000 bytes. More are sent as one hint for all."""
CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 10.0
HEARTBEAT_SECONDS = 30.0
"""After this time without a commit of this process, the connection is checked and listeners look at everything: a
pooler in between may hold notifications back."""
FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 5.0
FLUSH_SECONDS = 0.5
CLOSE_SECONDS = 0.2

_DIGEST_CHARS = 16
_LOST = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

_Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class PostgresHints:
    """Connects when there is something to send or a watcher to notify, and then stays connected: it reconnects for
    ever.

    Commits of other processes while the connection is lost are not reported one by one: the listeners are notified
    once, of everything, when it is back. A lost connection never concerns those who write.
    """

    def __init__(self, url: str, key: bytes) -> None:
        """``key``: the installation's own secret."""
        self._url = read_url(url)
        self._digest = lru_cache(maxsize=4096)(
            lambda text: hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:_DIGEST_CHARS]
        )
        self._channel = f"layerlore_{self._digest('hints')}"
        self._listeners = Listeners()
        self._pending: set[Scope] = set()
        self._pending_of_all = False
        self._wake = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self._delay = FIRST_DELAY_SECONDS
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def committed(self, scope: Scope | None) -> None:
        """Report a commit of this process, of this scope (None: perhaps of several); waits for nothing."""
        self._listeners.notify(anybody if scope is None else lambda other: other == scope)
        if scope is None or len(self._pending) >= MOST_SCOPES:
            self._pending_of_all = True
        else:
            self._pending.add(scope)
        self._sent.clear()
        self._wake.set()
        self._start()

    @contextmanager
    def listening(self, notify: Notify) -> Iterator[None]:
        """Call ``notify`` after every commit from now on, and once at the beginning."""
        with self._listeners.joined(notify):
            self._start()
            notify(anybody)
            yield

    async def close(self) -> None:
        """Send what is pending, if that is quickly done, and disconnect."""
        self._closed = True
        if self._task is None:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._sent.wait(), FLUSH_SECONDS)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _start(self) -> None:
        if self._task is None and not self._closed:
            # Its log lines are not about the call that happens to be the first.
            self._task = asyncio.create_task(self._run(), context=Context())

    async def _run(self) -> None:
        while True:
            try:
                await self._connected()
            except _LOST as error:
                # Said once; without the error's text, which may repeat what the URL says.
                if self._delay == FIRST_DELAY_SECONDS:
                    level = logging.WARNING
                else:
                    level = logging.DEBUG
                log.log(level, "no connection for change hints (%s); connecting again", type(error).__name__)
            except Exception:
                log.exception("change hints failed; connecting again")
            # The random part keeps replicas from connecting all at once after the server's restart.
            await asyncio.sleep(self._delay * random.uniform(0.5, 1.0))
            self._delay = min(self._delay * 2, LONGEST_DELAY_SECONDS)

    async def _connected(self) -> None:
        """Until the connection is lost, which raises."""
        connection: _Connection = await asyncpg.connect(
            self._url.dsn,
            timeout=CONNECT_SECONDS,
            command_timeout=STATEMENT_SECONDS,
            server_settings={"application_name": "layerlore hints"},
            statement_cache_size=self._url.statements,
        )
        try:
            # A lost connection has to wake the loop, which waits for the next commit.
            connection.add_termination_listener(lambda *_: self._wake.set())
            if not self._url.is_pooled:  # there it would listen for the next user of the server's connection
                await connection.add_listener(self._channel, self._heard)
            self._delay = FIRST_DELAY_SECONDS
            self._listeners.notify(anybody)
            metrics.LISTENER_CONNECTED.set(1)
            while True:
                await self._send_next(connection)
        finally:
            metrics.LISTENER_CONNECTED.set(0)
            with suppress(*_LOST):
                await connection.close(timeout=CLOSE_SECONDS)

    async def _send_next(self, connection: _Connection) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), HEARTBEAT_SECONDS)
        except TimeoutError:
            await connection.execute("SELECT 1")
            self._listeners.notify(anybody)
            return
        if connection.is_closed():
            raise ConnectionError
        self._wake.clear()
        if self._pending or self._pending_of_all:
            await self._send(connection)
            await asyncio.sleep(BATCH_SECONDS)

    async def _send(self, connection: _Connection) -> None:
        scopes, of_all = self._pending, self._pending_of_all
        # Taken before the first await: a commit that comes meanwhile goes into the next notification.
        self._pending, self._pending_of_all = set(), False
        of_all |= len(scopes) > MOST_SCOPES
        if of_all:
            payload = ""
        else:
            payload = ",".join(map(self._digest_of, scopes))
        try:
            # A hint need not outlive a crash: its commit waits for no disk. Both texts are digests.
            await connection.execute(
                f"BEGIN; SET LOCAL synchronous_commit TO off; SELECT pg_notify('{self._channel}', '{payload}'); COMMIT"
            )
        except BaseException:
            self._pending |= scopes
            self._pending_of_all |= of_all
            self._wake.set()
            raise
        # A commit during the send has set it again. Then close() still has something to wait for.
        if not self._wake.is_set():
            self._sent.set()

    def _heard(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        if pid == connection.get_server_pid():
            return  # our own: the listeners know it already
        if payload:
            digests = frozenset(str(payload).split(","))
        else:
            digests = None
        self._listeners.notify(anybody if digests is None else lambda scope: self._digest_of(scope) in digests)

    def _digest_of(self, scope: Scope) -> str:
        return self._digest("\x00".join((scope.tenant_id, scope.agent_id, scope.resource_id)))
