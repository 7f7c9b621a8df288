"""Callers that cost little themselves: one call at a time, over a raw HTTP connection or over the pipes of a host."""

import asyncio
import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self
from urllib.parse import urlsplit

from benchmarks.noisy_caller import META, PROTOCOL
from benchmarks.servers import Launch

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
RETRY_META = "layerlore/retry_after_seconds"
RETRY_DATA = "retry_after_seconds"
_LONGEST_LINE = 16 * 2**20

Outcome = Literal["answered", "busy", "failed", "cut off"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call. ``retry_after``: the seconds that a busy server names; 0 if it names none."""

    outcome: Outcome
    seconds: float
    text: str = ""
    retry_after: float = 0.0
    content: Any = None


class Caller(Protocol):
    """One client with at most one call under way."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer: ...

    async def close(self) -> None: ...


class HttpCaller:
    """Calls ``url`` over one connection, and over another when that is cut off."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url = url
        parts = urlsplit(url)
        self._address = parts.hostname or "", parts.port or 80
        self._path = parts.path
        self._host = parts.netloc
        self._token = token
        self._numbers = itertools.count(1)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        began = time.perf_counter()
        try:
            # A server closes what has been idle for some seconds, while others had their turn.
            if self._streams is not None and self._streams[0].at_eof():
                await self.close()
            if self._streams is None:
                self._streams = await asyncio.open_connection(*self._address, limit=_LONGEST_LINE)
            reader, writer = self._streams
            writer.write(self._request(tool, arguments))
            head, body = await _read_response(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            await self.close()
            return Answer("cut off", time.perf_counter() - began, type(error).__name__)
        if b"connection: close" in head:
            await self.close()
        return _answer_of_http(head, body, time.perf_counter() - began)

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    def twin(self) -> "HttpCaller":
        """Another connection of the same caller."""
        return HttpCaller(self._url, self._token)

    def _request(self, tool: str, arguments: Mapping[str, Any]) -> bytes:
        params = {"name": tool, "arguments": arguments, "_meta": META}
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": "tools/call", "params": params}
        body = json.dumps(message).encode()
        lines = [
            f"POST {self._path} HTTP/1.1",
            f"Host: {self._host}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {PROTOCOL}",
            "Mcp-Method: tools/call",
            f"Mcp-Name: {tool}",
            f"Content-Length: {len(body)}",
        ]
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def _read_response(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The head, in lower case, and the body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"transfer-encoding: chunked" not in head:
        length = head.partition(b"content-length:")[2].split(b"\r\n", 1)[0]
        return head, await reader.readexactly(int(length or b"0"))
    body = b""
    while size := int((await reader.readline()).strip() or b"0", 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return head, body


def _answer_of_http(head: bytes, body: bytes, seconds: float) -> Answer:
    status = head.split(b" ", 2)[1].decode()
    if status != "200":
        after = float(head.partition(b"retry-after:")[2].split(b"\r\n", 1)[0] or b"0")
        outcome: Outcome = "busy" if status in ("429", "503") else "failed"
        return Answer(outcome, seconds, f"HTTP {status}", after)
    if b"text/event-stream" in head:
        # Pings may come before the answer, which is the last event.
        body = body.rpartition(b"data: ")[2].strip()
    return _answer_of(json.loads(body), seconds)


def _answer_of(message: Mapping[str, Any], seconds: float) -> Answer:
    if (error := message.get("error")) is not None:
        after = (error.get("data") or {}).get(RETRY_DATA, 0.0)
        return Answer("busy" if after else "failed", seconds, error["message"], after)
    result = message["result"]
    text = "\n".join(block.get("text", "") for block in result["content"])
    if result.get("isError"):
        after = (result.get("_meta") or {}).get(RETRY_META, 0.0)
        return Answer("busy" if after else "failed", seconds, text, after)
    return Answer("answered", seconds, text, content=result.get("structuredContent"))


class StdioCaller:
    """A host: it has launched the server, and speaks to its pipes."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self.child = child
        self._numbers = itertools.count(1)

    @classmethod
    async def connected(cls, launch: Launch) -> Self:
        """Launch the server and shake hands."""
        with launch.log.open("a", encoding="utf-8") as log:
            child = await asyncio.create_subprocess_exec(
                *launch.stdio,
                env=launch.environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=_LONGEST_LINE,
            )
        caller = cls(child)
        await caller._ask("initialize", HELLO)
        caller._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return caller

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        began = time.perf_counter()
        try:
            message = await self._ask("tools/call", {"name": tool, "arguments": arguments})
        except (OSError, EOFError) as error:
            return Answer("cut off", time.perf_counter() - began, type(error).__name__)
        return _answer_of(message, time.perf_counter() - began)

    async def close(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        try:
            await asyncio.wait_for(self.child.wait(), 10.0)
        except TimeoutError:
            self.child.kill()
            await self.child.wait()

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        number = next(self._numbers)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        assert self.child.stdout is not None
        while line := await self.child.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            # Notifications and requests of the server come between.
            if message.get("id") == number and "method" not in message:
                return message
        raise EOFError

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
