"""The server on stdin and stdout, for a host that launches it.

It replaces the SDK's own runner, which dies on SIGTERM without clean-up, hangs on SIGINT until the next line arrives, and
does not answer a line that it cannot parse.
"""

import functools
import importlib.util
import os
import signal
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer

from layerlore.server.process.lines import MAX_LINE_BYTES
from layerlore.server.process.sdk_private import serve_alone
from layerlore.server.process.shutdown import ExitDeadline, StopRequest
from layerlore.server.process.standard_streams import ANSWER_SECONDS, LAUNCHED_BY
from layerlore.server.stdio.connection import LineConnection
from layerlore.server.stdio.streams import open_streams

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
    """Serve one client of either protocol era on two descriptors, which are taken over.

    It enters the server's lifespan, and leaves it when the input has ended and its requests are answered, when nobody
    reads the output any more, when the process that launched this one has died, or when `stop` is requested. Calls in
    flight are then cancelled; whatever still runs after a second, the lifespan's clean-up included, is cancelled, too.

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
