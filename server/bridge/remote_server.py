"""The server behind a URL as a stdio server: lines of a host go to it, and its answers come back."""

import contextlib
import functools
import importlib.util
import math
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.types import (
    INTERNAL_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types import CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from layerlore.server.access.caller import CAPTURED_HEADER, CONVERSATION_HEADER, new_thread
from layerlore.server.access.remote_endpoint import Remote
from layerlore.server.process.json_rpc import decode, encode, error_line, refuse_too_long, strip_mark
from layerlore.server.process.lines import MAX_LINE_BYTES, LineSplitter, TooLong
from layerlore.server.process.shutdown import ExitDeadline, StopRequest
from layerlore.server.relay.channels import find_conversation
from layerlore.server.relay.hook_events import is_captured
from layerlore.server.stdio.streams import ByteSource, open_streams

SESSION_HEADER = "mcp-session-id"
POST_ONLY_SECONDS = 10.0
"""How long a message without an answer may take, since others wait behind it."""
AGAIN_SECONDS = 1.0
"""The wait before a session's stream is opened again."""
LAST_ANSWERS_SECONDS = 1.0
LEAVING_SECONDS = 0.3
MOST_EVENT_BYTES = 64 * 1024 * 1024

_ACCEPT = {"accept": "application/json, text/event-stream"}
_NO_STREAM = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED)
_REASON_CHARS = 300

Send = Callable[[bytes], Awaitable[None]]


class NoAnswer(Exception):
    """No answer came. The text says why, for the host."""


@dataclass(eq=False, slots=True)
class _OpenRequest:
    """A request of the host that waits for its answer."""

    line: bytes
    message: JSONRPCRequest
    cancelled: bool = False
    asking: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    done: anyio.Event = field(default_factory=anyio.Event)


class RemoteServer:
    """A remote server. ``send`` sends a line to the host; ``tasks`` must outlive this object; ``hooks`` is the folder in
    which it is noted which hosts have hooks."""

    def __init__(
        self, client: httpx2.AsyncClient, url: httpx2.URL, send: Send, tasks: TaskGroup, hooks: str = ""
    ) -> None:
        self._hooks = hooks
        self._client = client
        self._url = url
        self._send = send
        self._tasks = tasks
        self._taken, self._next = anyio.create_memory_object_stream[tuple[bytes, JSONRPCMessage]](math.inf)
        self._all_passed_on = anyio.Event()
        self._asked: dict[RequestId, _OpenRequest] = {}
        self._first: _OpenRequest | None = None  # the request that began the session
        self._session = ""
        self._version = ""
        # A host on stdio has one conversation, however often the session behind it is begun anew.
        self._conversation = {CONVERSATION_HEADER: find_conversation(os.environ) or new_thread()}
        self._beginning = anyio.Lock()
        self._listening = False
        self._last_reported = ""

    def take(self, line: bytes, message: JSONRPCMessage) -> None:
        """Queue a message of the host, with the line that it came as."""
        self._taken.send_nowait((line, message))

    async def pass_on(self) -> None:
        """Pass on the queued messages in order. Requests do not wait for each other, but all wait for an initialize."""
        async for line, message in self._next:
            if not isinstance(message, JSONRPCRequest):
                # A notification waits for its answer here, so that it reaches the server before the message behind it.
                await self._post_only(line, message)
                continue
            request = self._asked[message.id] = _OpenRequest(line, message)
            if message.method == "initialize":
                # The answer brings the session's id, which all later requests must carry.
                await self._ask(request)
            else:
                self._tasks.start_soon(self._ask, request)
        self._all_passed_on.set()

    async def end(self) -> None:
        """End after the host has left; its open requests may be answered for a moment longer."""
        self._taken.close()
        with anyio.move_on_after(LAST_ANSWERS_SECONDS):
            await self._all_passed_on.wait()
            for request in list(self._asked.values()):
                # A subscription has no answer until it ends, so waiting for it would always use up the time.
                if request.message.method != "subscriptions/listen":
                    await request.done.wait()
        if self._session:
            # The server would keep the session until it expires; a failure to say so does no harm.
            with anyio.move_on_after(LEAVING_SECONDS), contextlib.suppress(httpx2.HTTPError):
                await self._client.delete(self._url, headers=self._headers_of_session())

    async def _ask(self, request: _OpenRequest) -> None:
        id_ = request.message.id
        try:
            with request.asking:
                await self._answer(request)
        except (httpx2.HTTPError, NoAnswer) as error:
            line = error_line(id_, INTERNAL_ERROR, self._describe(error))
            if not request.cancelled:
                await self._send(line)
        finally:
            # A host may use an id again, and the newer request must stay in the table.
            if self._asked.get(id_) is request:
                del self._asked[id_]
            request.done.set()

    async def _answer(self, request: _OpenRequest) -> None:
        session = self._session
        async with self._post(request.line, request.message) as response:
            # 404 with a session id means that the server forgot the session, for example after a restart.
            forgotten = response.status_code == HTTPStatus.NOT_FOUND and session and not _headers_of(request.message)
            if not forgotten or request.message.method == "initialize":
                await self._relay(response, request, self._send)
                return
        # Outside the first response, so that its connection is free again.
        await self._begin_again(session)
        async with self._post(request.line, request.message) as response:
            await self._relay(response, request, self._send)

    async def _relay(self, response: httpx2.Response, request: _OpenRequest, send: Send) -> None:
        """Pass on the answer to a request. Raises NoAnswer if none exists, httpx2.HTTPError."""
        if _kind(response) == "text/event-stream":
            async for event in httpx2.EventSource(response, MOST_EVENT_BYTES):
                if await self._pass_back(event.data.encode(), response, request, send):
                    return
            raise NoAnswer(f"{self._url.host} ended its answer too early")
        body = await response.aread()
        if _kind(response) != "application/json" or not await self._pass_back(body, response, request, send):
            raise self._refusal(response)

    async def _pass_back(self, data: bytes, response: httpx2.Response, request: _OpenRequest, send: Send) -> bool:
        """Send a message to the host, if the data is one. Returns whether it was the answer."""
        message = decode(data)
        if isinstance(message, bytes):
            return False
        if isinstance(message, JSONRPCResponse):
            self._last_reported = ""
            if request.message.method == "initialize":
                self._first = request
                self._session = response.headers.get(SESSION_HEADER, "")
                self._version = str(message.result.get("protocolVersion", ""))
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            await send(encode(message))
            return False
        # A server that cannot read a request answers with an id of null, which the host could not match.
        message.id = request.message.id  # an error may have no id
        # Before 2026-07-28 a server must end a cancelled request over HTTP with an error; on stdio it must not answer.
        if not request.cancelled:
            await send(encode(message))
        return True

    async def _post_only(self, line: bytes, message: JSONRPCMessage) -> None:
        """Send a notification, or an answer of the host, for which nothing comes back."""
        if isinstance(message, JSONRPCNotification):
            method = message.method
        else:
            method = ""
        if method == "notifications/cancelled" and isinstance(message, JSONRPCNotification):
            id_ = (message.params or {}).get("requestId")
            if isinstance(id_, int | str):
                request = self._asked.get(id_)
            else:
                request = None
            if request is not None:
                request.cancelled = True
                # From 2026-07-28 on, closing the request is how HTTP cancels; older servers get the notification.
                if _headers_of(request.message):
                    request.asking.cancel()
                    return
        if not self._version:
            return  # from 2026-07-28 on there are no such messages over HTTP
        try:
            with anyio.fail_after(POST_ONLY_SECONDS):
                async with self._post(line, message) as response:
                    await response.aread()
                    if not response.is_success:
                        raise self._refusal(response)
        except (httpx2.HTTPError, NoAnswer, TimeoutError) as error:
            self._describe(error)
        # Only now: a server of the older protocol opens the stream for initialized sessions alone.
        if method == "notifications/initialized" and self._session and not self._listening:
            self._listening = True
            self._tasks.start_soon(self._listen)

    async def _listen(self) -> None:
        """Pass on the messages that the server sends in a session without being asked."""
        status = 0
        while status not in _NO_STREAM:
            # A stream may break at any time, and the host need not know: it is opened again below.
            with contextlib.suppress(httpx2.HTTPError, NoAnswer):
                session, headers = self._session, {"accept": "text/event-stream", **self._headers_of_session()}
                async with self._client.stream("GET", self._url, headers=headers) as response:
                    status = response.status_code
                    if response.is_success:
                        async for event in httpx2.EventSource(response, MOST_EVENT_BYTES):
                            message = decode(event.data.encode())
                            if not isinstance(message, bytes):
                                await self._send(encode(message))
                if status == HTTPStatus.NOT_FOUND:
                    await self._begin_again(session)
            await anyio.sleep(AGAIN_SECONDS)
        self._listening = False

    async def _begin_again(self, forgotten: str) -> None:
        """Begin a session in place of one that the server no longer knows. Raises NoAnswer, httpx2.HTTPError."""
        # Several requests may fail with the same forgotten session, and only one of them may begin a new one.
        async with self._beginning:
            if self._session != forgotten or self._first is None:
                return  # another task did it meanwhile

            async def drop(_: bytes) -> None:
                """Drop the answer: the host got one when the session began."""

            async with self._post(self._first.line, self._first.message) as response:
                await self._relay(response, self._first, drop)
            begun = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
            async with self._post(encode(begun), begun) as response:
                await response.aread()

    @contextlib.asynccontextmanager
    async def _post(self, line: bytes, message: JSONRPCMessage) -> AsyncIterator[httpx2.Response]:
        begins = isinstance(message, JSONRPCRequest) and message.method == "initialize"
        routing = _headers_of(message) or ({} if begins else self._headers_of_session())
        headers = {**_ACCEPT, "content-type": "application/json", **self._conversation, **routing}
        client = _name_client(message)
        # The server has no view of this machine's hooks, and would ask the model to store what they store.
        if client and is_captured(self._hooks, client, str(self._url)):
            headers[CAPTURED_HEADER] = "1"
        async with self._client.stream("POST", self._url, content=line, headers=headers) as response:
            yield response

    def _headers_of_session(self) -> dict[str, str]:
        headers = {SESSION_HEADER: self._session, MCP_PROTOCOL_VERSION_HEADER: self._version}
        return {name: value for name, value in headers.items() if value}

    def _refusal(self, response: httpx2.Response) -> NoAnswer:
        reason = _reason(response)
        return NoAnswer(f"{self._url.host} answered HTTP {response.status_code}{': ' * bool(reason)}{reason}")

    def _describe(self, error: Exception) -> str:
        """An error in one line, which is also written to standard error unless it was the last line there."""
        reason = str(error)
        if not isinstance(error, NoAnswer):
            reason = f"{self._url.host} cannot be reached: {type(error).__name__}{': ' * bool(reason)}{reason}"
        # The reason may come from a foreign server, and a terminal would obey control characters in it.
        reason = "".join(character if character.isprintable() else " " for character in reason)
        if reason != self._last_reported:
            sys.stderr.write(f"layerlore: {reason}\n")
            sys.stderr.flush()
        self._last_reported = reason
        return reason


def _headers_of(message: JSONRPCMessage) -> dict[str, str]:
    """The headers of a request of 2026-07-28 or later, which repeat its content; none for other messages."""
    if isinstance(message, JSONRPCRequest):
        params = message.params or {}
    else:
        params = {}
    meta = params.get("_meta")
    if isinstance(meta, dict):
        version = meta.get(PROTOCOL_VERSION_META_KEY)
    else:
        version = None
    if not isinstance(message, JSONRPCRequest) or not isinstance(version, str) or not version:
        return {}
    values = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: message.method}
    name = params.get(NAME_BEARING_METHODS.get(message.method, ""))
    if isinstance(name, str):
        values[MCP_NAME_HEADER] = name
    return {header: encode_header_value(value) for header, value in values.items()}


def _name_client(message: JSONRPCMessage) -> str:
    """The client's name in a request that asks what the server is; "" in others."""
    if not isinstance(message, JSONRPCRequest) or message.method not in ("initialize", "server/discover"):
        return ""
    params = message.params or {}
    meta = params.get("_meta")
    given = params.get("clientInfo") or (meta.get(CLIENT_INFO_META_KEY) if isinstance(meta, dict) else None)
    return str(given.get("name", "")) if isinstance(given, dict) else ""


def _kind(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _reason(response: httpx2.Response) -> str:
    """The reason that a server, or a proxy before it, gives beside the status; pages of HTML give none."""
    if _kind(response) == "text/plain":
        return response.text[:_REASON_CHARS].strip()
    try:
        body = response.json()
    except ValueError:
        return ""
    if isinstance(body, dict):
        reason = body.get("error_description")
    else:
        reason = None
    if isinstance(reason, str):
        return reason[:_REASON_CHARS]
    return ""


# An open stream sends something every 15 seconds; an answer may take long.
TIMEOUT = httpx2.Timeout(connect=10.0, write=30.0, read=300.0, pool=None)
FLUSH_SECONDS = 0.3
EXIT_SECONDS = 1.7
"""A host waits two seconds between closing stdin and killing."""


def run_bridge(remote: Remote, fds: tuple[int, int], hooks: str) -> int:
    """Pass messages on until the host leaves, or SIGTERM or SIGINT comes, in the main thread of a process that ends
    afterwards. Returns the exit code. ``fds``: what `claim_stdio` returned. ``hooks``: the folder of this machine's hooks."""
    stop = StopRequest()
    deadline = ExitDeadline(stop, EXIT_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.ask())
    try:
        run = functools.partial(_bridge, remote, fds, stop, hooks)
        anyio.run(run, backend_options={"use_uvloop": importlib.util.find_spec("uvloop") is not None})
        deadline.served = True
    finally:
        stop.ask(1)  # without effect unless something has failed
    return stop.exit_code


async def _bridge(remote: Remote, fds: tuple[int, int], stop: StopRequest, hooks: str) -> None:
    source, sink = await open_streams(*fds)
    writing, reading = anyio.Lock(), anyio.CancelScope()

    async def send(line: bytes) -> None:
        # Answers come from several tasks, and two lines must not mix.
        async with writing:
            try:
                await sink.write(line)
            except OSError:
                stop.ask()  # the host has stopped reading

    async def end_when_asked() -> None:
        await stop.wait()
        reading.cancel()

    options: dict[str, Any] = {"timeout": TIMEOUT, "trust_env": remote.uses_proxies, "verify": remote.tls}
    # Each open subscription needs a connection of its own, so a pool limit would block the next request.
    limits = httpx2.Limits(max_connections=None)
    async with (
        httpx2.AsyncClient(headers=list(remote.headers), limits=limits, **options) as client,
        anyio.create_task_group() as tasks,
    ):
        server = RemoteServer(client, remote.url, send, tasks, hooks)
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
