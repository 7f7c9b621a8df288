"""Starts `sample_server.py` as a process, speaks to it in lines, and makes sure that it is gone afterwards."""

import contextlib
import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from layerlore.server.command_line.app import ENTRIES, run

sys.path.append(str(Path(__file__).parents[2]))  # bad requests are sent by what the benchmark sends them with

SAMPLE = Path(__file__).with_name("sample_server.py")
PATIENCE = 120.0  # seconds: only a hang takes so long
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Sample:
    """How to start the sample server: once for each test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marks_file = folder / "marks"
        self.stderr_file = folder / "stderr"
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def command(self, **options: Any) -> list[str]:
        return [sys.executable, str(SAMPLE), json.dumps({"marks": str(self.marks_file), **options})]

    @property
    def marks(self) -> list[str]:
        return self.marks_file.read_text().split() if self.marks_file.exists() else []

    @property
    def stderr(self) -> str:
        return self.stderr_file.read_text()

    @contextlib.asynccontextmanager
    async def lines(self, *, stdin: Any = subprocess.PIPE, stdout: Any = subprocess.PIPE, **options: Any) -> Any:
        """The sample on stdio, and whoever speaks to it in lines."""
        command = self.command(transport="stdio", **options)
        with self.stderr_file.open("wb") as stderr:
            process = await anyio.open_process(command, stdin=stdin, stdout=stdout, stderr=stderr, env=self.env)
        async with _killed_at_the_end(process):
            yield Lines(process)

    @contextlib.asynccontextmanager
    async def http(self, **options: Any) -> Any:
        """The sample on HTTP, ready to answer."""
        command = self.command(transport="http", **options)
        with self.stderr_file.open("wb") as stderr:
            process = await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=stderr, env=self.env)
        async with _killed_at_the_end(process):
            with anyio.fail_after(PATIENCE):
                assert process.stdout is not None
                stdout = BufferedByteReceiveStream(process.stdout)
                assert await stdout.receive_until(b"\n", 1000) == b"printed at import"
                host, port = (await stdout.receive_until(b"\n", 1000)).split()
            yield Http(process, f"http://{host.decode()}:{int(port)}")


@contextlib.asynccontextmanager
async def _killed_at_the_end(process: Process) -> AsyncIterator[None]:
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True), contextlib.suppress(ProcessLookupError):
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def ended(process: Process) -> int:
    """The exit code of a process that has to end by itself. What could hold it up takes far longer than the patience."""
    with anyio.fail_after(PATIENCE):
        return await process.wait()


@dataclass
class Http:
    process: Process
    url: str

    async def ended(self) -> int:
        return await ended(self.process)


class Lines:
    """A client that sends and receives raw lines, for what a well-behaved one would never do."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._received = BufferedByteReceiveStream(process.stdout) if process.stdout else None
        self._last_id = 0

    async def send(self, line: bytes | dict[str, Any]) -> None:
        assert self.process.stdin is not None
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        with anyio.fail_after(PATIENCE):
            await self.process.stdin.send(data + b"\n")

    async def receive(self) -> dict[str, Any]:
        assert self._received is not None
        with anyio.fail_after(PATIENCE):
            return json.loads(await self._received.receive_until(b"\n", 32 * 1024 * 1024))

    async def request(self, method: str, params: dict[str, Any]) -> int:
        self._last_id += 1
        await self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        sent = await self.request("tools/call", {"name": tool, "arguments": arguments})
        reply = await self.receive()
        assert reply["id"] == sent
        return reply

    async def initialize(self) -> None:
        await self.request("initialize", INITIALIZE)
        assert "result" in await self.receive()
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def rest(self) -> bytes:
        """Everything that comes until stdout ends."""
        assert self._received is not None
        chunks = [self._received.buffer]
        with anyio.fail_after(PATIENCE), contextlib.suppress(anyio.EndOfStream):
            while True:
                chunks.append(await self._received.receive())
        return b"".join(chunks[1:])

    async def ended(self) -> int:
        return await ended(self.process)


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[Sample]:
    yield Sample(tmp_path)
    left = [child.cmdline() for child in psutil.Process().children() if str(SAMPLE) in child.cmdline()]
    assert not left, "a sample server is still running"


Cli = Callable[..., tuple[int, str, str]]

_PLACES = ("--data-dir", "--config")


def expect_same_place(arguments: Sequence[str], printed: str) -> None:
    """Check that each command which another one suggests has the options that name the place of its memory."""
    named = [shlex.join(arguments[at : at + 2]) for at, each in enumerate(arguments) if each in _PLACES]
    for command in re.findall(rf"\blayerlore (?:[^`\n]* )?(?:{'|'.join(ENTRIES)})\b[^`\n]*", printed):
        assert not [each for each in named if each not in command], command


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """Calls the command line in this process; answers with exit code, standard output and standard error. It sets up
    logging, which is as before afterwards. Each command that it suggests must be about the same memory."""
    for name in list(os.environ):
        if name.startswith("LAYERLORE_") or name == "COLUMNS":
            monkeypatch.delenv(name)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["layerlore", *arguments])
        capsys.readouterr()
        code = run()
        printed, errors = capsys.readouterr()
        # Help is the same for all memories.
        if "Usage: " not in printed + errors:
            expect_same_place(arguments, printed + errors)
        return code, printed, errors

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield call
    root.handlers[:] = handlers
    root.setLevel(level)
