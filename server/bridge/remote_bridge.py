"""The bridge process between a host on standard input and output and a server over HTTP."""

import functools
import importlib.util
import signal
from typing import Any

import anyio
import httpx2

from layerlore.server.bridge.remote_server import Remote, RemoteServer, Send
from layerlore.server.process.json_rpc import (
    MAX_LINE_BYTES,
    LineSplitter,
    TooLong,
    decode,
    refuse_too_long,
    strip_mark,
)
from layerlore.server.process.standard_streams import ExitDeadline, StopRequest
from layerlore.server.stdio.streams import ByteSource, open_streams

# An open stream sends something every 15 seconds; an answer may take long.
TIMEOUT = httpx2.Timeout(connect=10.0, write=30.0, read=300.0, pool=None)
FLUSH_SECONDS = 0.3
EXIT_SECONDS = 1.7
"""A host waits two seconds between closing stdin and killing."""


def run_bridge(remote: Remote, fds: tuple[int, int]) -> int:
    """Pass messages on until the host leaves, or SIGTERM or SIGINT comes, in the main thread of a process that ends
    afterwards. Returns the exit code. ``fds``: what `claim_stdio` returned."""
    stop = StopRequest()
    deadline = ExitDeadline(stop, EXIT_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.ask())
    try:
        run = functools.partial(_bridge, remote, fds, stop)
        anyio.run(run, backend_options={"use_uvloop": importlib.util.find_spec("uvloop") is not None})
        deadline.served = True
    finally:
        stop.ask(1)  # without effect unless something has failed
    return stop.exit_code


async def _bridge(remote: Remote, fds: tuple[int, int], stop: StopRequest) -> None:
    source, sink = await open_streams(*fds)
    writing, reading = anyio.Lock(), anyio.CancelScope()

    async def send(line: bytes) -> None:
        async with writing:
            try:
                await sink.write(line)
            except OSError:
                stop.ask()  # the host has stopped reading

    async def end_when_asked() -> None:
        await stop.wait()
        reading.cancel()

    # Requests to this machine use no proxy from the environment.
    options: dict[str, Any] = {"timeout": TIMEOUT, "trust_env": remote.url.scheme == "https", "verify": remote.tls}
    limits = httpx2.Limits(max_connections=None)
    async with (
        httpx2.AsyncClient(headers=list(remote.headers), limits=limits, **options) as client,
        anyio.create_task_group() as tasks,
    ):
        server = RemoteServer(client, remote.url, send, tasks)
        for task in (server.pass_on, end_when_asked):
            tasks.start_soon(task)
        with reading:
            await _read(source, server, send)
        stop.ask()
        await server.end()
        with anyio.move_on_after(FLUSH_SECONDS):
            await sink.aclose()
        source.close()
        tasks.cancel_scope.cancel()


async def _read(source: ByteSource, server: RemoteServer, send: Send) -> None:
    """Read messages from the host. It never waits for the server, so that the end of the input is noticed at once."""
    lines = LineSplitter(MAX_LINE_BYTES)

    async def take(line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            await send(refuse_too_long(line, MAX_LINE_BYTES))
            return
        message = decode(line)
        if isinstance(message, bytes):
            await send(message)
        else:
            server.take(strip_mark(line), message)

    while chunk := await source.read():
        for line in lines.feed(chunk):
            await take(line)
    for line in lines.flush():
        await take(line)
