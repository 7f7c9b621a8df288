"""A worker of ``layerlore serve --workers``: it serves the connections that its parent gives it.

A session of the older protocol lives in one process. Its id names the worker (``2-...``), and so does the path that
``/sse`` tells its client (``/messages/2/``). A connection that brings a request of another worker's session goes there,
with what was read of that request, and stays there until it brings one of a third worker's.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.server.http.connections import Connections, HttpConnection
from layerlore.server.http.frames import SETTLED, Channel, Frame, Kind
from layerlore.server.process.shutdown import StopRequest
from layerlore.storage.core.errors import StorageUnavailable

MESSAGES = b"/messages/"
_SESSION = b"mcp-session-id"
_MOST_DIGITS = 4

MakeProtocol = Callable[..., asyncio.Protocol]


class WorkerLink:
    """The worker with this index, and its channel to the parent, which ends it by closing the channel.

    ``opened`` waits until calls can be served, and returns what people are shown once. Raises StorageUnavailable.
    """

    def __init__(self, index: int, file: int, stop: StopRequest, opened: Callable[[], Awaitable[str]]) -> None:
        self.index = index
        self._opened = opened
        self._channel = Channel(socket.socket(fileno=file))
        self._stop = stop
        self._tasks: set[asyncio.Task[None]] = set()
        self._make: MakeProtocol | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def mark(self) -> str:
        """How the ids of this worker's sessions begin."""
        return f"{self.index}-"

    def begin(self, make: MakeProtocol) -> None:
        """Serve connections with the protocols that ``make(received=, settled=)`` makes, in the running event loop."""
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._channel.fileno(), self._hear)
        self._keep(self._loop.create_task(self.report_ready()))

    def end(self) -> None:
        """Take no more connections."""
        self._make = None

    async def report_ready(self) -> None:
        """Have the parent give this worker connections, once calls can be served."""
        with contextlib.suppress(StorageUnavailable):  # the process ends, and has said why
            self._say(Frame(Kind.READY, text=(await self._opened()).encode()))

    def report_closed(self) -> None:
        self._say(Frame(Kind.CLOSED))

    def pass_on(self, file: int, received: bytes, owner: int) -> None:
        """Have the connection served by its owner. The descriptor is taken over."""
        self._say(Frame(Kind.PASSED, owner, received, file))

    def owner_of(self, url: bytes, headers: list[tuple[bytes, bytes]]) -> int | None:
        """The other worker whose session a request belongs to; None if it can be answered here."""
        named = next((value.partition(b"-")[0] for name, value in headers if name == _SESSION), b"")
        if not named and url.startswith(MESSAGES):
            named = url[len(MESSAGES) :].partition(b"/")[0]
        if not named.isdigit() or len(named) > _MOST_DIGITS:
            return None
        owner = int(named)
        return None if owner == self.index else owner

    def _say(self, frame: Frame) -> None:
        try:
            self._channel.put(frame)
        except OSError:
            self._stop.ask()
            return
        if self._channel.waiting and self._loop is not None:
            self._loop.add_writer(self._channel.fileno(), self._flush)

    def _flush(self) -> None:
        assert self._loop is not None
        try:
            self._channel.flush()
        except OSError:
            self._stop.ask()
        if self._stop.asked or not self._channel.waiting:
            self._loop.remove_writer(self._channel.fileno())

    def _hear(self) -> None:
        assert self._loop is not None
        frames = self._channel.take()
        if frames is None:  # the parent is gone
            self._loop.remove_reader(self._channel.fileno())
            self._stop.ask()
            return
        for frame in frames:
            if self._make is None:
                os.close(frame.file)
                continue
            self._keep(self._loop.create_task(self._adopt(frame, self._make)))

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _adopt(self, frame: Frame, make: MakeProtocol) -> None:
        connection = socket.socket(fileno=frame.file)
        connection.setblocking(False)
        assert self._loop is not None
        try:
            await self._loop.connect_accepted_socket(
                lambda: make(received=frame.text, settled=frame.worker == SETTLED), connection
            )
        except OSError:  # the client has left
            connection.close()
            self.report_closed()


class SharedConnection(HttpConnection):
    """A connection that may be passed on to another worker. ``received``: what another one has read of it;
    ``settled``: its first request is answered here, whoever it is for."""

    def __init__(
        self, link: WorkerLink, connections: Connections, *, received: bytes = b"", settled: bool = False, **given: Any
    ) -> None:
        super().__init__(connections, **given)
        self._link = link
        self._received = received
        self._settled = settled
        # What has arrived of a head, from its first byte on; None while a body is awaited.
        self._head: list[bytes] | None = []
        self._ended = False
        self._follows = False
        self._owner: int | None = None
        self._passed = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self._received and not transport.is_closing():
            received, self._received = self._received, b""
            self.data_received(received)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self._passed:
            self._link.report_closed()

    def data_received(self, data: bytes) -> None:
        if self._owner is not None:
            return  # it is about to be closed
        if self._head is not None:
            self._head.append(data)
        super().data_received(data)
        if self._owner is not None:
            self._leave(self._owner)
        elif self._ended:
            self._ended = False
            self._head = []

    def on_message_begin(self) -> None:
        if self._owner is not None:
            return
        # Where it begins within what was read is not known if another message has ended there.
        self._follows = self._ended
        if self._ended:
            self._ended = False
            self._head = []
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        if self._owner is None:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._owner is None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._owner is not None:
            return
        owner = None if self._settled else self._link.owner_of(self.url, self.headers)
        self._settled = False
        if owner is not None:
            self._owner = owner
            return
        self._head = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._owner is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._owner is None:
            self._ended = True
            super().on_message_complete()

    def _leave(self, owner: int) -> None:
        """Pass the connection on. One that still has an answer to come is closed after it instead: its client sends the
        request again, as for any connection that ends between two requests."""
        answering = self.cycle is not None and not self.cycle.response_complete
        self._head_since = None
        if answering:
            self.cycle.keep_alive = False
        elif self._follows or self.unsent or self._head is None:
            self.transport.close()
        else:
            self._passed = True
            file = os.dup(self.transport.get_extra_info("socket").fileno())
            self._link.pass_on(file, b"".join(self._head), owner)
            self.abort()
