"""Guards that a request passes before anything else reads it: no header twice, and a body that is one JSON-RPC message.

The SDK's endpoints read bodies in three ways, which all accept `NaN`; one accepts lone surrogates, none answers what it
cannot read with the request's id, and a client that leaves in the middle costs a stack trace in the log. Here a body must
be what a line on stdio must be, by the same function, and a refused body never reaches them.

A request whose two `MCP-Protocol-Version` headers differed began no session for the code that counts sessions, but began
one for the SDK: one tenant could open all the sessions of the server. So a header that is read as one value may come once.
"""

import errno
import socket
from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus

import anyio
from mcp.types import INVALID_REQUEST
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layerlore.server.access.browser_sessions import PAGE_HEADER
from layerlore.server.access.caller import (
    AGENT_HEADER,
    CAPTURED_HEADER,
    CONVERSATION_HEADER,
    PROJECT_HEADER,
    RESOURCE_HEADER,
    THREAD_HEADER,
)
from layerlore.server.access.gate import TENANT_HEADER
from layerlore.server.process.json_rpc import decode, error_line, refuse_too_long, strip_mark
from layerlore.server.process.lines import EDGE_BYTES, MAX_LINE_BYTES, TooLong

BODY_SECONDS = 30.0
"""How long a body may take to arrive."""

DISCARDED_LIMITS = 16
"""How many times the limit is read and discarded, so that a client that sends first and reads later learns why."""

MESSAGE = "layerlore.message"
"""The key in an ASGI scope of the message that a POST's body is, for what stands behind a BodyGuard."""

_JSON = b"application/json"


class BodyRefused(Exception):
    """A body is not read any further. The text says why; ``status`` is the HTTP status of the answer."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class BodyGuard:
    """ASGI middleware of an app that takes JSON-RPC messages as bodies of POSTs; other methods pass.

    It refuses with a JSON-RPC error that holds the request's id if it can be found: 415 if the body is not plain
    `application/json`, 413 beyond `limit` bytes, 408 if it does not arrive within `seconds`, 400 if it is not a
    message. A client that leaves in the middle of its body gets no answer.
    """

    def __init__(self, app: ASGIApp, *, limit: int = MAX_LINE_BYTES, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Only POSTs carry messages; a GET opens a stream, a DELETE ends a session.
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            _check_headers(scope["headers"], self._limit)
            body = await self._read(receive)
        except BodyRefused as refused:
            error = error_line(None, INVALID_REQUEST, f"Invalid request. {refused}")
            await _answer(refused.status, error)(scope, receive, send)
            return
        if isinstance(body, TooLong):
            error = refuse_too_long(body, self._limit)
            await _answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error)(scope, receive, send)
        elif body is not None:
            message = decode(body)
            if isinstance(message, bytes):
                await _answer(HTTPStatus.BAD_REQUEST, message)(scope, receive, send)
            else:
                scope[MESSAGE] = message
                # The mark is removed for the SDK, whose parser would refuse it.
                await self._app(scope, _replay(strip_mark(body), receive), send)

    async def _read(self, receive: Receive) -> bytes | TooLong | None:
        """The whole body, or both ends of one above the limit; None if the client has left. Raises BodyRefused."""
        body, head, size = bytearray(), b"", 0
        # One time limit for the whole body, since a client could send a byte now and then.
        with anyio.move_on_after(self._seconds):
            while size <= DISCARDED_LIMITS * self._limit:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                piece = message.get("body", b"")
                body += piece
                size += len(piece)
                if size > self._limit:
                    # Both ends are enough to find the id of the refused request.
                    head = head or bytes(body[:EDGE_BYTES])
                    del body[:-EDGE_BYTES]
                if not message.get("more_body", False):
                    if head:
                        return TooLong(head, bytes(body))
                    return bytes(body)
            raise _too_large(self._limit)
        raise BodyRefused(HTTPStatus.REQUEST_TIMEOUT, f"The body did not arrive within {self._seconds:g} seconds")


def _check_headers(headers: Iterable[tuple[bytes, bytes]], limit: int) -> None:
    found = dict(headers)
    kind, encoding = found.get(b"content-type", b""), found.get(b"content-encoding", b"identity")
    if kind.partition(b";")[0].strip().lower() != _JSON:
        raise BodyRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json")
    # A packed body would be checked against the limit only after it has been unpacked.
    if encoding.strip().lower() not in (b"", b"identity"):
        raise BodyRefused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Encoding is not supported; send the body as it is"
        )
    length = found.get(b"content-length", b"")
    # Twenty digits are more than enough, and a longer text would be slow to convert.
    if length.isdigit() and int(length[:20]) > DISCARDED_LIMITS * limit:
        raise _too_large(limit)


def _too_large(limit: int) -> BodyRefused:
    return BodyRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is larger than the limit of {limit} bytes")


def _answer(status: HTTPStatus, error: bytes) -> Response:
    # The rest of a body that does not arrive or does not end is not waited for.
    ends = status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return Response(error, status, {"connection": "close"} if ends else None, media_type="application/json")


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return the body once, then whatever else comes, such as the client's leaving."""
    given = False

    async def receive_once() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_once


OURS = tuple(
    name.lower().encode()
    for name in (
        *(AGENT_HEADER, CAPTURED_HEADER, CONVERSATION_HEADER, PROJECT_HEADER, RESOURCE_HEADER),
        *(TENANT_HEADER, THREAD_HEADER, PAGE_HEADER),
    )
)
SINGLE = frozenset(
    {
        *(b"host", b"origin", b"authorization", b"x-api-key"),
        *(b"accept", b"content-type", b"content-encoding", b"content-length"),
        *(b"mcp-protocol-version", b"mcp-session-id", b"mcp-method", b"mcp-name", b"last-event-id"),
        *OURS,
    }
)
"""The headers that this server, the SDK and the libraries below them read as one value."""
_PREFIX = b"mcp-param-"


class SingleHeaders:
    """ASGI middleware that answers 400 to a request that has one of these headers twice, on every route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            names = [name for name, _ in scope["headers"]]
        else:
            names = []
        twice = [
            name for name, times in Counter(names).items() if times > 1 and (name in SINGLE or name.startswith(_PREFIX))
        ]
        if not twice:
            await self._app(scope, receive, send)
            return
        repeated = ", ".join(sorted(name.decode("latin-1") for name in twice))
        error = error_line(None, INVALID_REQUEST, f"Invalid request. These headers may be sent only once: {repeated}")
        await Response(error, 400, media_type="application/json")(scope, receive, send)


def open_listener(host: str, port: int) -> socket.socket:
    """A listening socket whose connections send small writes at once. Raises OSError.

    Without TCP_NODELAY, which accepted sockets take over from it, an answer in two writes waits 40 ms for the client's
    delayed acknowledgement. asyncio sets it only on sockets that name their protocol, and these do not.
    """
    if ":" in host:
        family = socket.AF_INET6
    else:
        family = socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=2048)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def describe_failure(host: str, port: int, error: OSError) -> str:
    """Why it cannot be listened there, in one line."""
    reason = (error.strerror or str(error)).partition(" (while")[0]  # the rest repeats the address
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        advice = "; --port chooses another port"
    else:
        advice = ""
    return f"layerlore: cannot listen on {host} port {port}: {reason}{advice}\n"


def describe_listening(host: str, port: int) -> str:
    """Where clients find the server, in one line."""
    if ":" in host:
        shown = f"[{host}]"
    else:
        shown = host
    return f"layerlore listens on http://{shown}:{port}/mcp (SSE: /sse)\n"
