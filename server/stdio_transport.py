"""The server on stdin and stdout, for a host that launches it.

In place of the SDK's own runner, which dies on SIGTERM without its clean-up, hangs on SIGINT until the next line comes
in, and leaves a line that it cannot parse unanswered.
"""

import contextlib
import functools
import importlib.util
import logging
import os
import signal
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from layerlore.server.framing import (
    MAX_LINE_BYTES,
    LineSplitter,
    TooLong,
    decode,
    encode,
    opened_by_handshake,
    refuse_too_long,
)
from layerlore.server.sdk_private import serve_alone
from layerlore.server.standard_streams import LAUNCHED_BY
from layerlore.server.stdio_streams import Sink, Source, open_streams
from layerlore.server.stopping import ExitDeadline, StopRequest

logger = logging.getLogger(__name__)

# A host waits two seconds between closing stdin and killing. What still runs after one is cancelled, and the process
# ends at 1.7 whatever happens.
CANCEL_SECONDS = 1.0
EXIT_SECONDS = 1.7
FLUSH_SECONDS = 0.4
PARENT_POLL_SECONDS = 1.0
ANSWER_SECONDS = 10.0
"""How long requests that came before the end of the input may take, unless a signal comes: as long as a write may wait
for the database. They may have been piped in, by somebody who waits for the answers."""

# Has no answer before the connection ends.
_LISTEN = "subscriptions/listen"


def run_stdio(
    mcp: MCPServer[Any],
    fds: tuple[int, int],
    *,
    stop: StopRequest | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    answer_seconds: float = ANSWER_SECONDS,
) -> int:
    """Serve one client until it leaves, as `serve_stdio` says, or SIGTERM or SIGINT comes; for the main thread.

    The process has to end afterwards: signals stay caught, and 1.7 seconds after the end began it is ended by force.

    Args:
        fds: what `claim_stdio` returned.
        stop: ends the server from inside, with an exit code.
        answer_seconds: how long what was asked before the input ended may take to be answered.

    Returns:
        The exit code: 0, unless `stop` said another.
    """
    stop = stop or StopRequest()
    deadline = ExitDeadline(stop, EXIT_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.ask())
    serve = functools.partial(
        serve_stdio, mcp, *fds, stop=stop, max_line_bytes=max_line_bytes, answer_seconds=answer_seconds
    )
    try:
        anyio.run(serve, backend_options={"use_uvloop": importlib.util.find_spec("uvloop") is not None})
        deadline.served = True
    finally:
        stop.ask(1)  # without effect unless the lifespan has failed
    return stop.exit_code


async def serve_stdio(
    mcp: MCPServer[Any],
    read_fd: int,
    write_fd: int,
    *,
    stop: StopRequest | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    answer_seconds: float = ANSWER_SECONDS,
) -> None:
    """Serve one client of either protocol era on two descriptors, which are taken over.

    Enters the server's lifespan, and leaves it when the input has ended and what came before is answered, nobody reads
    the output any more, the process that launched this one has died, or `stop` is asked for. Calls in flight are
    cancelled then; what still runs after a second, the lifespan's clean-up included, is cancelled too.

    Args:
        max_line_bytes: a longer message is skipped and answered with an error.
        answer_seconds: how long what was asked before the input ended may take to be answered.

    Raises:
        Exception: whatever the lifespan raises.
    """
    source, sink = await open_streams(read_fd, write_fd)
    try:
        connection = _StdioConnection(mcp, source, sink, stop or StopRequest(), max_line_bytes, answer_seconds)
        await connection.serve()
    finally:
        source.close()


class _StdioConnection:
    def __init__(
        self,
        mcp: MCPServer[Any],
        source: Source,
        sink: Sink,
        stop: StopRequest,
        max_line_bytes: int,
        answer_seconds: float,
    ) -> None:
        self._mcp = mcp
        self._source = source
        self._sink = sink
        self._stop = stop
        self._max_line_bytes = max_line_bytes
        self._to_server, self._messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._from_server, self._replies = anyio.create_memory_object_stream[SessionMessage](0)
        self._reading = anyio.CancelScope()
        self._serving = anyio.CancelScope()
        self._writing = anyio.Lock()
        self._opening = True
        self._all_written = anyio.Event()
        self._answer_seconds = answer_seconds
        self._asked = _Asked()

    async def serve(self) -> None:
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            for task in (self._read, self._write, self._watch_parent, self._end_when_asked):
                tasks.start_soon(task)
            try:
                with self._serving:
                    await serve_alone(self._mcp, self._messages, self._from_server)
            except Exception as error:  # noqa: BLE001 - raised below, outside of the task group's ExceptionGroup
                failure = error
            self._messages.close()
            self._from_server.close()
            with anyio.move_on_after(FLUSH_SECONDS):
                await self._all_written.wait()
                await self._sink.aclose()
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _read(self) -> None:
        lines = LineSplitter(self._max_line_bytes)
        async with self._to_server:  # closing it is what ends the server
            with self._reading, contextlib.suppress(anyio.BrokenResourceError):  # the server has failed
                while chunk := await self._source.read():
                    taken = lines.feed(chunk)
                    for line in opened_by_handshake(taken) if self._opening else taken:
                        await self._take(line)
                        self._opening = False
                for line in lines.flush():
                    await self._take(line)
                with anyio.move_on_after(self._answer_seconds):
                    await self._asked.answered()
        self._stop.ask()

    async def _take(self, line: bytes | TooLong) -> None:
        taken = refuse_too_long(line, self._max_line_bytes) if isinstance(line, TooLong) else decode(line)
        if isinstance(taken, bytes):
            await self._send(taken)
        else:
            self._asked.came(taken)
            await self._to_server.send(SessionMessage(taken))

    async def _write(self) -> None:
        async with self._replies:
            async for reply in self._replies:
                try:
                    line = encode(reply.message)
                except ValueError:
                    logger.exception("dropped a message to the client that cannot be written as JSON")
                else:
                    await self._send(line)
                self._asked.went(reply.message)
        self._all_written.set()

    async def _send(self, line: bytes) -> None:
        async with self._writing:
            try:
                await self._sink.write(line)
            except OSError:
                self._stop.ask()  # nobody reads any more

    async def _watch_parent(self) -> None:
        while os.getppid() == LAUNCHED_BY:  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(PARENT_POLL_SECONDS)
        self._stop.ask()

    async def _end_when_asked(self) -> None:
        await self._stop.wait()
        self._reading.cancel()
        await anyio.sleep(CANCEL_SECONDS)
        self._serving.cancel()


class _Asked:
    """The requests that have no answer yet."""

    def __init__(self) -> None:
        self._open: set[RequestId] = set()
        self._waiting: anyio.Event | None = None

    def came(self, message: JSONRPCMessage) -> None:
        """From the client."""
        if isinstance(message, JSONRPCRequest) and message.method != _LISTEN:
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._closed((message.params or {}).get("requestId"))

    def went(self, message: JSONRPCMessage) -> None:
        """To the client."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._closed(message.id)

    async def answered(self) -> None:
        """Return once none is left. For one task."""
        while self._open:
            self._waiting = anyio.Event()
            await self._waiting.wait()

    def _closed(self, request_id: Any) -> None:
        if isinstance(request_id, str | int):  # anything may be sent as one
            self._open.discard(request_id)
        if not self._open and self._waiting is not None:
            self._waiting.set()
