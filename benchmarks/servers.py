"""Starts the servers that are measured, ours and the one that does nothing, and connects the SDK's client to them."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import psutil
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

NOOP = Path(__file__).with_name("noop_server.py")
START_SECONDS = 60.0
CALL_SECONDS = 120.0
END_SECONDS = 10.0

Mode = Literal["auto", "legacy"]


class ToolFailed(Exception):
    """A tool answered with an error; the text is the tool's."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started: its commands for stdio and HTTP (the port follows), and where its log is written."""

    name: str
    stdio: list[str]
    http: list[str]
    log: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """This environment without what would change Python's or our settings: byte code is compiled and kept."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LAYERLORE_"))}
        return kept | self.settings


def ours(folder: Path, *, resource: str = "default", database: str = "", **settings: str) -> Launch:
    """layerlore with its data in ``folder``, each process for itself. ``settings`` are further ones, as variables:
    LIMITS__JSON_DEPTH="9"."""
    program = [sys.executable, "-m", "layerlore.server"]
    # A process that is shared would also answer the clients of other runs.
    alone = {"LOCAL__SHARE": "false"}
    chosen = {"DATA_DIR": str(folder), "RESOURCE": resource, "DATABASE": database, **alone, **settings}
    return Launch(
        "layerlore",
        program,
        [*program, "serve", "--no-auth", "--port"],
        folder / "layerlore.log",
        {f"LAYERLORE_{name}": value for name, value in chosen.items() if value},
    )


def noop(folder: Path) -> Launch:
    """The server that does nothing; its log is in ``folder``."""
    program = [sys.executable, str(NOOP)]
    return Launch("no-op", program, program, folder / "noop.log")


@dataclass(frozen=True, slots=True)
class Server:
    """A server's operating-system process: what it has used so far."""

    child: psutil.Process

    def cpu_seconds(self) -> float:
        try:
            # clock_getcpuclockid of the process: psutil's times come in hundredths of a second.
            return time.clock_gettime(~self.child.pid << 3 | 2)
        except (AttributeError, OSError):
            times = self.child.cpu_times()
            return float(times.user + times.system)

    def resident_mb(self) -> float:
        return float(self.child.memory_info().rss) / 2**20


@dataclass(frozen=True, slots=True)
class Connection:
    """A client that is connected, and the server it is connected to; ``connected`` is seconds since the spawn."""

    client: Client
    server: Server
    connected: float

    async def call(self, tool: str, **arguments: Any) -> Any:
        return await call(self.client, tool, **arguments)


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """The structured answer of a tool, or its text. Raises ToolFailed."""
    result = await client.call_tool(tool, arguments)
    text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
    if result.is_error:
        raise ToolFailed(f"{tool}: {text}")
    return text if result.structured_content is None else result.structured_content


@contextlib.asynccontextmanager
async def over_stdio(launch: Launch, mode: Mode = "auto") -> AsyncIterator[Connection]:
    """Spawn the server and connect to its pipes. ``legacy`` makes the client begin with ``initialize``."""
    # The SDK does not say which process it spawned: it is the child that was not there before.
    before = {child.pid for child in psutil.Process().children()}
    parameters = StdioServerParameters(command=launch.stdio[0], args=launch.stdio[1:], env=launch.environment)
    with launch.log.open("a", encoding="utf-8") as log:
        began = time.perf_counter()
        client = Client(stdio_client(parameters, errlog=log), mode=mode, read_timeout_seconds=CALL_SECONDS)
        async with client:
            connected = time.perf_counter() - began
            # The command is the server itself, so its child is the process to measure.
            child = next(child for child in psutil.Process().children() if child.pid not in before)
            yield Connection(client, Server(child), connected)


@contextlib.asynccontextmanager
async def in_process(launch: Launch) -> AsyncIterator[Connection]:
    """The same server in this process, without pipes: for a quick look, since nothing of the process is measured."""
    settings = load_settings(environ=launch.settings)
    began = time.perf_counter()
    async with Client(build_server(settings), read_timeout_seconds=CALL_SECONDS) as client:
        yield Connection(client, Server(psutil.Process()), time.perf_counter() - began)


@contextlib.asynccontextmanager
async def http_server(launch: Launch) -> AsyncIterator[tuple[str, Server]]:
    """Spawn the server on a free port; yields the URL to connect to once it is listened on. Raises RuntimeError."""
    port = free_port()
    with launch.log.open("a", encoding="utf-8") as log:
        started = subprocess.Popen(
            [*launch.http, str(port)], env=launch.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        await _until_listening(started, port, launch)
        yield f"http://127.0.0.1:{port}/mcp", Server(psutil.Process(started.pid))
    finally:
        started.terminate()
        try:
            # The server gets time to end its transactions and close its database.
            started.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


@contextlib.asynccontextmanager
async def over_http(launch: Launch, clients: int = 1) -> AsyncIterator[list[Connection]]:
    """Spawn the server and connect that many clients to it."""
    async with http_server(launch) as (url, server), contextlib.AsyncExitStack() as connected:
        began = time.perf_counter()
        yield [
            Connection(
                await connected.enter_async_context(Client(url, read_timeout_seconds=CALL_SECONDS)),
                server,
                time.perf_counter() - began,
            )
            for _ in range(clients)
        ]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _until_listening(started: "subprocess.Popen[bytes]", port: int, launch: Launch) -> None:
    with anyio.fail_after(START_SECONDS):
        while True:
            # A server that has ended never listens, and its log says why.
            if started.poll() is not None:
                tail = launch.log.read_text(encoding="utf-8")[-2000:]
                raise RuntimeError(f"{launch.name} ended with code {started.returncode} before it listened:\n{tail}")
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            except OSError:
                await anyio.sleep(0.02)
            else:
                return
