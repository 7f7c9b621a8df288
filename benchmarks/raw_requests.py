"""Sends raw requests to a server, good and bad, over stdio, Streamable HTTP and SSE, and holds it to an answer each.

What is owed is decided here, from the bytes alone and by another parser than the server's: see `owed`.
"""

import base64
import contextlib
import itertools
import json
import re
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from benchmarks.noisy_caller import META
from benchmarks.servers import Launch
from layerlore.server.process.lines import MAX_LINE_BYTES

PATIENCE = 60.0
"""Seconds that a batch may take, and the start of a server."""
BATCH = 100
_LONGEST_ANSWER = 64 * 1024 * 1024
_LONGEST_ID = 1000
_LONGEST_NUMBER = 40

Era = Literal["legacy", "modern"]
ERAS: tuple[Era, ...] = ("legacy", "modern")
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bad", "version": "1"}}
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

Key = str
"""An id as JSON: 1 and "1" are two."""


@dataclass(frozen=True, slots=True)
class Owed:
    """What a request has to be answered with: its id, an answer with any id or none, or nothing (though it may be)."""

    kind: Literal["id", "any", "nothing"]
    key: Key = ""


@dataclass(slots=True)
class Tally:
    """What came of requests. All but the first three are to be 0 or empty."""

    sent: int = 0
    answers: int = 0
    errors: int = 0
    unanswered: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    server_errors: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    tracebacks: int = 0
    exits: int = 0

    def amiss(self) -> dict[str, Any]:
        """What should not be there and is."""
        names = ("unanswered", "unasked", "server_errors", "unexpected", "tracebacks", "exits")
        return {name: found for name in names if (found := getattr(self, name))}

    def __iadd__(self, other: "Tally") -> "Tally":
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def take(self, message: Any) -> None:
        """Count an answer."""
        self.answers += 1
        text = json.dumps(message)
        self.errors += "error" in message or '"isError": true' in text[:300_000]
        if "failed unexpectedly" in text or "Traceback" in text:
            self.unexpected.append(text[:300])


def owed(body: bytes) -> Owed:
    """What JSON-RPC owes to these bytes. Of a body above the limit only the ends are looked at, so its id may be lost."""
    if len(body) > MAX_LINE_BYTES:
        return Owed("any")
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return Owed("any")
    if not isinstance(value, dict):
        return Owed("any")
    is_response = "method" not in value and not value.keys().isdisjoint(("result", "error"))
    if "id" not in value or is_response:
        is_message = value.get("jsonrpc") == "2.0" and isinstance(value.get("method"), str)
        return Owed("nothing" if is_message or is_response else "any")
    request_id = value["id"]
    usable = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    with contextlib.suppress(ValueError):  # a lone surrogate
        key = json.dumps(request_id, ensure_ascii=False)
        key.encode()
        if usable and len(key) <= (_LONGEST_ID if isinstance(request_id, str) else _LONGEST_NUMBER):
            return Owed("id", key)
    return Owed("any")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")


def request(request_id: int | str, method: str, params: Any = None, era: Era = "legacy") -> bytes:
    """A request as bytes, with what each one says of its client in the modern era."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    if era == "modern":
        params = {**(params or {}), "_meta": META}
    return json.dumps(message if params is None else {**message, "params": params}).encode()


def probe(number: int, era: Era) -> bytes:
    """A good request, whose answer shows that the server still serves."""
    method = "ping" if era == "legacy" else "server/discover"
    return request(f"still there {number}", method, era=era)


@contextlib.asynccontextmanager
async def spawned(launch: Launch, command: Sequence[str], **pipes: Any) -> AsyncIterator[Process]:
    """A server whose log is emptied before; ended afterwards, whatever happens."""
    with launch.log.open("wb") as log:
        process = await anyio.open_process(command, stderr=log, env=launch.environment, **pipes)
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True), contextlib.suppress(ProcessLookupError):
            process.terminate()
            with anyio.move_on_after(PATIENCE):
                await process.wait()
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()


def look_at_end(tally: Tally, process: Process, log: Path, *, running: bool) -> None:
    """Count stack traces, and whether the server had ended by itself or could not end well."""
    tally.tracebacks += log.read_text(encoding="utf-8", errors="replace").count("Traceback")
    tally.exits += not running or process.returncode != 0


class Lines:
    """Requests over a pair of streams on which answers come in any order; batch by batch, a good request after each."""

    def __init__(self, tally: Tally, era: Era) -> None:
        self._tally = tally
        self._era = era
        self._numbers = itertools.count(1)
        self._due: Counter[Key] = Counter()
        self._loose = 0
        self._most_loose = 0
        self._settled = anyio.Event()

    async def batch(self, bodies: Sequence[bytes], send: Any) -> None:
        """Send them by `send` and wait for what is owed."""
        self._settled = anyio.Event()
        self._loose = self._most_loose = 0
        good = probe(next(self._numbers), self._era)
        for body in (*bodies, good):
            due = owed(body)
            self._due[due.key] += due.kind == "id"
            self._loose += due.kind == "any"
            self._most_loose += due.kind != "id"
        least = self._loose
        with anyio.move_on_after(PATIENCE):
            for body in (*bodies, good):
                self._tally.sent += 1
                await send(body)
            self._check()
            await self._settled.wait()
        self._tally.unanswered += [key for key, count in self._due.items() if count > 0]
        if self._loose > 0:
            self._tally.unanswered.append(f"{self._loose} of {least} without a usable id")
        if -self._loose > self._most_loose - least:
            self._tally.unasked.append(f"{-self._loose} errors without an id more than owed")
        self._due.clear()

    def receive(self, message: dict[str, Any]) -> None:
        """One message of the server's."""
        if "method" in message:
            return
        self._tally.take(message)
        key = json.dumps(message.get("id"), ensure_ascii=False)
        if self._due[key] > 0:
            self._due[key] -= 1
        else:
            # What cannot be read may still have had an id that can be made out.
            self._loose -= 1
        self._check()

    def _check(self) -> None:
        if self._loose <= 0 and not any(self._due.values()):
            self._settled.set()


async def over_stdio(launch: Launch, bodies: Sequence[bytes], era: Era) -> Tally:
    """Send them to a server on pipes, many at a time; a blank line is no request."""
    bodies = [body for body in bodies if body.strip()]
    tally = Tally()
    lines = Lines(tally, era)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    async with spawned(launch, launch.stdio, **pipes) as process, anyio.create_task_group() as tasks:
        assert process.stdin is not None
        assert process.stdout is not None
        out = BufferedByteReceiveStream(process.stdout)

        async def receive() -> None:
            with contextlib.suppress(anyio.IncompleteRead, anyio.ClosedResourceError):
                while True:
                    lines.receive(json.loads(await out.receive_until(b"\n", _LONGEST_ANSWER)))

        async def send(body: bytes) -> None:
            assert process.stdin is not None
            with contextlib.suppress(anyio.BrokenResourceError):
                await process.stdin.send(body.replace(b"\n", b" ") + b"\n")

        tasks.start_soon(receive)
        opening = [request("hello", "initialize", HELLO)] if era == "legacy" else []
        await lines.batch(opening, send)
        for begin in range(0, len(bodies), BATCH):
            await lines.batch(bodies[begin : begin + BATCH], send)
        running = process.returncode is None
        await process.stdin.aclose()
        with anyio.move_on_after(PATIENCE):
            await process.wait()
        tasks.cancel_scope.cancel()
    look_at_end(tally, process, launch.log, running=running)
    return tally


@dataclass(frozen=True, slots=True)
class Listening:
    """A server on HTTP."""

    process: Process
    url: str
    tally: Tally


@contextlib.asynccontextmanager
async def listening(launch: Launch) -> AsyncIterator[Listening]:
    """A server on a free port; stack traces and exits are in the tally once it has ended."""
    tally, running = Tally(), False
    async with spawned(launch, [*launch.http, "0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        url = None
        with anyio.fail_after(PATIENCE):
            while url is None:
                url = re.search(r"listens on (http://\S+)/mcp", launch.log.read_text(encoding="utf-8"))
                await anyio.sleep(0.02)
        yield Listening(process, url[1], tally)
        running = process.returncode is None
    look_at_end(tally, process, launch.log, running=running)


def client_of(server: Listening) -> httpx2.AsyncClient:
    """A client that lets go of an idle connection before the server does, which would be taken for no answer."""
    limits = httpx2.Limits(keepalive_expiry=1)
    return httpx2.AsyncClient(base_url=server.url, headers=ACCEPT, timeout=PATIENCE, limits=limits)


async def over_http(server: Listening, bodies: Sequence[bytes], era: Era, clients: int = 8) -> None:
    """POST them to `/mcp`, `clients` at a time, each in a session of its own."""

    async def one(mine: Sequence[bytes]) -> None:
        async with client_of(server) as client:
            if era == "legacy":
                opened = await client.post("/mcp", content=request("hello", "initialize", HELLO))
                client.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            for number, body in enumerate(mine):
                await post(server.tally, client, body, era)
                if number % 10 == 0:
                    await post(server.tally, client, probe(number, era), era)

    async with anyio.create_task_group() as tasks:
        for begin in range(clients):
            tasks.start_soon(one, bodies[begin::clients])


async def post(tally: Tally, client: httpx2.AsyncClient, body: bytes, era: Era) -> None:
    """POST one body to `/mcp` and look at the answer."""
    due = owed(body)
    tally.sent += 1
    try:
        answer = await client.post("/mcp", content=body, headers=modern_headers(body) if era == "modern" else {})
    except httpx2.HTTPError as error:
        tally.unanswered.append(f"{type(error).__name__}: {body[:200]!r}")
        return
    if answer.status_code >= 500:
        tally.server_errors.append(f"{answer.status_code} {answer.text[:200]}: {body[:200]!r}")
    found = [message for message in messages(answer) if "method" not in message]
    for message in found:
        tally.take(message)
        given = json.dumps(message.get("id"), ensure_ascii=False)
        if due.kind == "id" and given not in (due.key, "null"):
            tally.unasked.append(f"{given} for {body[:200]!r}")
    if due.kind == "id" and (not found or answer.status_code == 202):
        tally.unanswered.append(f"{answer.status_code} {answer.text[:200]}: {body[:200]!r}")
    if due.kind == "any" and not found and not 400 <= answer.status_code < 500:
        tally.unanswered.append(f"{answer.status_code} {answer.text[:200]}: {body[:200]!r}")


def messages(answer: httpx2.Response) -> list[dict[str, Any]]:
    """The JSON-RPC messages of a response, whichever way it comes."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        lines = answer.text.replace("\r\n", "\n").split("\n")
        return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    with contextlib.suppress(ValueError):
        value = json.loads(answer.content)
        return [value] if isinstance(value, dict) else []
    return []


def modern_headers(body: bytes) -> dict[str, str]:
    """The headers that a client of the modern era sends with a body, as far as it has what they say."""
    headers = {"mcp-protocol-version": "2026-07-28"}
    with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError, RecursionError):
        value = json.loads(body)
        headers["mcp-method"] = _header(value["method"])
        headers["mcp-name"] = _header(value["params"][_NAMED_BY[value["method"]]])
    return headers


def _header(value: str) -> str:
    """A value that may be in a header, or else the wrapping that the protocol has for it."""
    if len(value) > 2000:
        return "too long"
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    return f"=?base64?{base64.b64encode(value.encode(errors='replace')).decode()}?="


async def data_of(stream: httpx2.Response) -> AsyncIterator[bytes]:
    """The data of each event. Its lines end at line feeds only: JSON may have what else is taken for the end of one."""
    rest = b""
    async for chunk in stream.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                yield line[6:].rstrip(b"\r")


async def over_sse(server: Listening, bodies: Sequence[bytes], era: Era) -> None:
    """POST them to `/messages/`; answers come on the stream of `/sse`, or on the POST that is refused."""
    lines = Lines(server.tally, era)
    async with (
        client_of(server) as client,
        client.stream("GET", "/sse") as stream,
        anyio.create_task_group() as tasks,
    ):
        events = data_of(stream)
        place = (await anext(events)).decode()

        async def receive() -> None:
            async for data in events:
                lines.receive(json.loads(data))

        async def send(body: bytes) -> None:
            try:
                answer = await client.post(place, content=body)
            except httpx2.HTTPError as error:
                server.tally.unanswered.append(f"{type(error).__name__}: {body[:200]!r}")
                return
            if answer.status_code >= 500:
                server.tally.server_errors.append(f"{answer.status_code}: {body[:200]!r}")
            for message in messages(answer):
                lines.receive(message)

        tasks.start_soon(receive)
        await lines.batch([request("hello", "initialize", HELLO)] if era == "legacy" else [], send)
        for begin in range(0, len(bodies), BATCH):
            await lines.batch(bodies[begin : begin + BATCH], send)
        tasks.cancel_scope.cancel()
