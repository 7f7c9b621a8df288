"""A worker of ``layerlore serve --workers``: it serves the connections that its parent gives it.

A session of the older protocol lives in one process. Its id names the worker (``2-...``), and so does the path that
``/sse`` gives its client (``/messages/2/``). A connection that brings a request of another worker's session goes
there, with what was read of that request, and stays there until it brings one of a third worker's.
"""

import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import Any, NamedTuple

from layerlore.server.http.connections import Connections, HttpConnection
from layerlore.server.process.standard_streams import StopRequest
from layerlore.storage.core.errors import StorageUnavailable

_HEAD = struct.Struct("!BHI")
_READ_BYTES = 256 * 1024
_MOST_FILES = 16  # that one read may bring along
_CLOSED_IN_CHILDREN = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Kind(IntEnum):
    """The content of a frame."""

    READY = 1
    """To the parent: this worker serves. ``text``: the lines that people are shown once, if there are any."""
    CONNECTION = 2
    """To a worker: serve this connection. ``text`` was read from it already. ``worker`` is SETTLED if its first request
    is to be answered here, whoever it is for."""
    CLOSED = 3
    """To the parent: a connection is over."""
    PASSED = 4
    """To the parent: this connection's request is for ``worker``. ``text`` was read from it already."""


SETTLED = 1


class Frame(NamedTuple):
    """One message. ``file`` is a descriptor that goes along; -1 if none does."""

    kind: Kind
    worker: int = 0
    text: bytes = b""
    file: int = -1


class Channel:
    """One end of a pair of Unix sockets. Nothing waits: bytes that cannot be sent yet wait for ``flush``.

    A file belongs to the channel from ``put`` on, and to the receiver of its frame afterwards.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._unsent: deque[tuple[memoryview, int]] = deque()
        self._bytes = bytearray()
        self._files: deque[int] = deque()

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def waiting(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._unsent)

    def put(self, frame: Frame) -> None:
        """Send a frame, or as much of it as can be sent now. Raises OSError if the other end is gone."""
        # The highest bit of the kind says that a descriptor comes along.
        head = _HEAD.pack(frame.kind | (0x80 if frame.file >= 0 else 0), frame.worker, len(frame.text))
        self._unsent.append((memoryview(head + frame.text), frame.file))
        self.flush()

    def flush(self) -> None:
        """Send as much as can be sent now. Raises OSError if the other end is gone."""
        while self._unsent:
            text, file = self._unsent[0]
            try:
                if file >= 0:
                    sent = socket.send_fds(self._end, [text], [file])
                else:
                    sent = self._end.send(text)
            except BlockingIOError:
                return
            # The kernel has duplicated the file, so our own descriptor would only leak.
            if file >= 0:
                os.close(file)
            if sent == len(text):
                self._unsent.popleft()
            else:
                # The file went along with the first bytes, and must not be sent twice.
                self._unsent[0] = (text[sent:], -1)

    def take(self) -> list[Frame] | None:
        """The frames that have arrived whole; None once the other end is closed."""
        # Received files are closed in children, or a child would hold a client's connection open.
        try:
            text, files, _, _ = socket.recv_fds(self._end, _READ_BYTES, _MOST_FILES, _CLOSED_IN_CHILDREN)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not text:
            return None
        self._files += files
        self._bytes += text
        return self._whole()

    def close(self) -> None:
        for file in (*(file for _, file in self._unsent), *self._files):
            if file >= 0:
                with contextlib.suppress(OSError):
                    os.close(file)
        self._unsent.clear()
        self._files.clear()
        self._end.close()

    def _whole(self) -> list[Frame]:
        frames: list[Frame] = []
        while len(self._bytes) >= _HEAD.size:
            kind, worker, length = _HEAD.unpack_from(self._bytes)
            end = _HEAD.size + length
            if len(self._bytes) < end:
                break
            # Files arrive in the order of their frames, and no later than these.
            if kind & 0x80:
                file = self._files.popleft()
            else:
                file = -1
            frames.append(Frame(Kind(kind & 0x7F), worker, bytes(self._bytes[_HEAD.size : end]), file))
            del self._bytes[:end]
        return frames


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
        """Have the connection served by its owner. It takes over the descriptor."""
        self._say(Frame(Kind.PASSED, owner, received, file))

    def owner_of(self, url: bytes, headers: list[tuple[bytes, bytes]]) -> int | None:
        """The other worker whose session a request belongs to; None if it can be answered here."""
        # A session id begins with the index of its worker.
        named = next((value.partition(b"-")[0] for name, value in headers if name == _SESSION), b"")
        if not named and url.startswith(MESSAGES):
            named = url[len(MESSAGES) :].partition(b"/")[0]
        # An id of a client's own making could be a number of any length.
        if not named.isdigit() or len(named) > _MOST_DIGITS:
            return None
        owner = int(named)
        if owner == self.index:
            return None
        return owner

    def _say(self, frame: Frame) -> None:
        try:
            self._channel.put(frame)
        except OSError:
            # Without its parent a worker gets no connections, so it ends.
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
        if self._stop.request or not self._channel.waiting:
            self._loop.remove_writer(self._channel.fileno())

    def _hear(self) -> None:
        assert self._loop is not None
        frames = self._channel.take()
        if frames is None:  # the parent is gone
            self._loop.remove_reader(self._channel.fileno())
            self._stop.ask()
            return
        for frame in frames:
            # A worker that ends takes no more connections; the client connects again.
            if self._make is None:
                os.close(frame.file)
                continue
            self._keep(self._loop.create_task(self._adopt(frame, self._make)))

    def _keep(self, task: "asyncio.Task[None]") -> None:
        # The loop keeps only weak references to tasks.
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
    ``settled``: its first request is answered here, even if it is for another worker."""

    def __init__(
        self, link: WorkerLink, connections: Connections, *, received: bytes = b"", settled: bool = False, **given: Any
    ) -> None:
        super().__init__(connections, **given)
        self._link = link
        self._received = received
        self._settled = settled
        # The part of a head that has arrived; None while a body is awaited.
        self._head: list[bytes] | None = []
        self._ended = False
        self._follows = False
        self._owner: int | None = None
        self._passed = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # The bytes that another worker has read come first, as if they had just arrived.
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
            # Another worker may have to read the head, so its bytes stay as they came.
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
        if self._settled:
            owner = None
        else:
            owner = self._link.owner_of(self.url, self.headers)
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
        # Passing on is only safe if all bytes of the new request, and nothing else, are in hand.
        elif self._follows or self.unsent or self._head is None:
            self.transport.close()
        else:
            self._passed = True
            # A duplicate, since closing the transport closes its own descriptor.
            file = os.dup(self.transport.get_extra_info("socket").fileno())
            self._link.pass_on(file, b"".join(self._head), owner)
            self.abort()
