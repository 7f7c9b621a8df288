"""The server on stdin and stdout, for a host that launches it.

It replaces the SDK's own runner, which dies on SIGTERM without clean-up, hangs on SIGINT until the next line arrives, and
does not answer a line that it cannot parse.
"""

import contextlib
import functools
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from layerlore.server.limits.room import Turns
from layerlore.server.process.json_rpc import decode, encode, put_handshake_first, refuse_too_long
from layerlore.server.process.lines import MAX_LINE_BYTES, LineSplitter, TooLong
from layerlore.server.process.logs import configure_logging
from layerlore.server.process.program import shell_command
from layerlore.server.process.sdk_private import Messages, Replies, add_middleware, serve_alone
from layerlore.server.process.shutdown import ExitDeadline, StopRequest
from layerlore.server.process.standard_streams import ANSWER_SECONDS, LAUNCHED_BY
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import SettingsError, load_served
from layerlore.server.stdio.streams import ByteSink, ByteSource, open_streams

logger = logging.getLogger(__name__)

CANCEL_SECONDS = 1.0
"""How long calls that are cancelled may go on."""
FLUSH_SECONDS = 0.4

# A method that has no answer before the connection ends.
_LISTEN = "subscriptions/listen"


class LineConnection:
    """Serves one client until its input has ended and its requests are answered, the reader of its output leaves, or
    ``stop`` is requested.

    Args:
        serve: serves the messages of one connection until they end.
        max_line_bytes: a longer message is skipped and answered with an error.
        frame_bytes: the most that stands before a message in its line.
        answer_seconds: how long requests that came before the end of the input may take.
    """

    def __init__(
        self,
        serve: Callable[[Messages, Replies], Awaitable[None]],
        source: ByteSource,
        sink: ByteSink,
        stop: StopRequest,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        frame_bytes: int = 0,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._serve = serve
        self._source = source
        self._sink = sink
        self._stop = stop
        self._max_line_bytes = max_line_bytes
        self._frame_bytes = frame_bytes
        # Streams without a buffer: a slow server must slow down the reader, not fill the memory.
        self._to_server, self._messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._from_server, self._replies = anyio.create_memory_object_stream[SessionMessage](0)
        self._reading = anyio.CancelScope()
        self._answering = anyio.CancelScope()
        self._serving = anyio.CancelScope()
        self._writing = anyio.Lock()
        self._opening = True
        self._all_written = anyio.Event()
        self._answer_seconds = answer_seconds
        self._open_requests = _OpenRequests()

    async def run(self, *beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Serve, with some tasks beside it. Raises any error of ``serve``."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            for task in (self._read, self._write, self._end_when_asked, *beside):
                tasks.start_soon(task)
            try:
                with self._serving:
                    await self._serve(self._messages, self._from_server)
            # An exception here would cancel the writer before the last answers are out.
            except Exception as error:  # noqa: BLE001 - raised below, outside of the task group's ExceptionGroup
                failure = error
            self._messages.close()
            # Closing the replies lets the writer finish what is queued and end.
            self._from_server.close()
            with anyio.move_on_after(FLUSH_SECONDS):
                await self._all_written.wait()
                await self._sink.aclose()
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def accept(self, lines: Sequence[bytes | TooLong]) -> Sequence[bytes | TooLong]:
        """The messages in lines that have come."""
        return lines

    def admit(self, line: bytes, message: JSONRPCMessage) -> JSONRPCMessage:
        """The message of a line, as it is served."""
        return message

    def all_answered(self) -> None:
        """Called once the input has ended and its requests are answered, or have had their time."""

    def end_input(self) -> None:
        """Read no more, as if the input had ended."""
        self._reading.cancel()

    async def _read(self) -> None:
        lines = LineSplitter(self._max_line_bytes + self._frame_bytes)
        async with self._to_server:  # closing it ends the server
            with self._reading, contextlib.suppress(anyio.BrokenResourceError):  # the server has failed
                while chunk := await self._source.read():
                    taken = self.accept(lines.feed(chunk))
                    # Only the first lines may be reordered, because the protocol's era is fixed by then.
                    for line in put_handshake_first(taken) if self._opening else taken:
                        await self._take(line)
                        self._opening = False
                for line in self.accept(lines.flush()):
                    await self._take(line)
            with self._answering, anyio.move_on_after(self._answer_seconds):
                await self._open_requests.wait()
            self.all_answered()
        self._stop.ask()

    async def _take(self, line: bytes | TooLong) -> None:
        taken = refuse_too_long(line, self._max_line_bytes) if isinstance(line, TooLong) else decode(line)
        if isinstance(taken, bytes):
            await self.send(taken)
        else:
            assert isinstance(line, bytes)
            # Noted before it is served, so that a fast answer finds its request.
            self._open_requests.add(taken)
            await self._to_server.send(SessionMessage(self.admit(line, taken)))

    async def _write(self) -> None:
        async with self._replies:
            async for reply in self._replies:
                try:
                    line = encode(reply.message)
                except ValueError:
                    logger.exception("dropped a message to the client that cannot be written as JSON")
                else:
                    await self.send(line)
                # Also for a reply that could not be written, or the end would wait for it in vain.
                self._open_requests.note_reply(reply.message)
        self._all_written.set()

    async def send(self, line: bytes) -> None:
        """Write a line to the client."""
        async with self._writing:
            try:
                await self._sink.write(line)
            except OSError:
                self._stop.ask()  # the host has stopped reading

    async def _end_when_asked(self) -> None:
        await self._stop.wait()
        self._reading.cancel()
        self._answering.cancel()
        # Calls in flight get a moment to end by themselves before they are cancelled.
        await anyio.sleep(CANCEL_SECONDS)
        self._serving.cancel()


class _OpenRequests:
    """The requests that have no answer yet."""

    def __init__(self) -> None:
        self._open: set[RequestId] = set()
        self._waiting: anyio.Event | None = None

    def add(self, message: JSONRPCMessage) -> None:
        """Note a message from the client."""
        if isinstance(message, JSONRPCRequest) and message.method != _LISTEN:
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._remove((message.params or {}).get("requestId"))

    def note_reply(self, message: JSONRPCMessage) -> None:
        """Note a message to the client."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._remove(message.id)

    async def wait(self) -> None:
        """Wait until no request is open. For one task."""
        while self._open:
            self._waiting = anyio.Event()
            await self._waiting.wait()

    def _remove(self, request_id: Any) -> None:
        if isinstance(request_id, str | int):  # a client may send anything as an id
            self._open.discard(request_id)
        if not self._open and self._waiting is not None:
            self._waiting.set()


EXIT_SECONDS = 1.7
"""A host waits two seconds between closing stdin and killing: the process ends after this time in any case."""
PARENT_POLL_SECONDS = 1.0


def run_stdio(
    mcp: MCPServer[Any],
    fds: tuple[int, int],
    *,
    stop: StopRequest | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    answer_seconds: float = ANSWER_SECONDS,
) -> int:
    """Serve one client until it leaves (see `serve_stdio`), or SIGTERM or SIGINT comes, in the main thread.

    The process must end afterwards: signals stay caught, and 1.7 seconds after the end began it is ended by force.

    Args:
        fds: what `claim_stdio` returned.
        stop: ends the server from inside, with an exit code.
        answer_seconds: how long requests that came before the end of the input may take.

    Returns:
        The exit code: 0, unless `stop` has another one.
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
    """Serve one client of either protocol era on two descriptors, which it takes over.

    It enters the server's lifespan, and leaves it when the input has ended and its requests are answered, when the
    reader of the output leaves, when the process that launched this one has died, or when `stop` is requested. Calls
    in flight are then cancelled; whatever still runs after a second, the lifespan's clean-up included, is cancelled,
    too.

    Args:
        max_line_bytes: a longer message is skipped and answered with an error.
        answer_seconds: how long requests that came before the end of the input may take.

    Raises:
        Exception: any error of the lifespan.
    """
    stop = stop or StopRequest()
    source, sink = await open_streams(read_fd, write_fd)
    try:
        connection = LineConnection(
            functools.partial(serve_alone, mcp),
            source,
            sink,
            stop,
            max_line_bytes=max_line_bytes,
            answer_seconds=answer_seconds,
        )
        await connection.run(functools.partial(_watch_parent, stop))
    finally:
        source.close()


async def _watch_parent(stop: StopRequest) -> None:
    while os.getppid() == LAUNCHED_BY:  # noqa: ASYNC110 - there is no event for it
        await anyio.sleep(PARENT_POLL_SECONDS)
    stop.ask()


def serve(flags: dict[str, str], fds: tuple[int, int]) -> int:
    """Serve until the client leaves. Returns the exit code: 2 for invalid settings."""
    try:
        settings = load_served(flags)
    except SettingsError as error:
        sys.stderr.write(f"layerlore: {error}\n")
        return 2
    configure_logging(settings.log_level)
    # A person who starts the program in a terminal would otherwise see nothing.
    if os.isatty(fds[0]):
        commands = f"`{shell_command('demo')}`, or `{shell_command('--help')}`"
        sys.stderr.write(f"layerlore speaks MCP on stdin and stdout; hosts launch it. Try {commands}.\n")
    stop = StopRequest()
    server = build_server(settings, stop=stop)
    add_middleware(server, Turns(settings.rates))
    return run_stdio(server, fds, stop=stop)
