"""What a POST must be before anything behind this reads it: one whole JSON-RPC message, within the limits.

The SDK's endpoints read bodies in three ways, which all take `NaN`; one takes lone surrogates, none answers what it
cannot read with the request's id, and a client that leaves in the middle costs a stack trace in the log. Here a body is
held to what a line on stdio is held to, by the same function, and what is refused never reaches them.
"""

from collections.abc import Iterable
from http import HTTPStatus

import anyio
from mcp.types import INVALID_REQUEST
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layerlore.server.framing import (
    EDGE_BYTES,
    MAX_LINE_BYTES,
    TooLong,
    decode,
    error_line,
    refuse_too_long,
    without_mark,
)

BODY_SECONDS = 30.0
"""How long a body may take to arrive."""

TAKEN_IN = 16
"""How many times the limit is read and thrown away, so that a client that sends before it listens hears why."""

_JSON = b"application/json"


class Refused(Exception):
    """A body that is not read on: the HTTP status and what to tell."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class BodyGuard:
    """Around an ASGI app that takes JSON-RPC messages as bodies of POSTs; other methods pass.

    Refuses with a JSON-RPC error, the request's id in it where one can be made out: 415 for what is not
    `application/json` as it is, 413 beyond `limit` bytes, 408 for a body that does not come within `seconds`, 400 for
    one that is no message. A client that leaves in the middle of its body is forgotten.
    """

    def __init__(self, app: ASGIApp, *, limit: int = MAX_LINE_BYTES, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            _check_headers(scope["headers"], self._limit)
            body = await self._read(receive)
        except Refused as refused:
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
                await self._app(scope, _once(without_mark(body), receive), send)

    async def _read(self, receive: Receive) -> bytes | TooLong | None:
        """The whole body, or the ends of one above the limit; None if the client has left. Raises Refused."""
        body, head, size = bytearray(), b"", 0
        with anyio.move_on_after(self._seconds):
            while size <= TAKEN_IN * self._limit:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                piece = message.get("body", b"")
                body += piece
                size += len(piece)
                if size > self._limit:
                    head = head or bytes(body[:EDGE_BYTES])
                    del body[:-EDGE_BYTES]
                if not message.get("more_body", False):
                    return TooLong(head, bytes(body)) if head else bytes(body)
            raise _too_large(self._limit)
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, f"The body did not come within {self._seconds:g} seconds")


def _check_headers(headers: Iterable[tuple[bytes, bytes]], limit: int) -> None:
    found = dict(headers)
    kind, encoding = found.get(b"content-type", b""), found.get(b"content-encoding", b"identity")
    if kind.partition(b";")[0].strip().lower() != _JSON:
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json")
    if encoding.strip().lower() not in (b"", b"identity"):
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Encoding is not supported; send the body as it is")
    length = found.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > TAKEN_IN * limit:
        raise _too_large(limit)


def _too_large(limit: int) -> Refused:
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is larger than the limit of {limit} bytes")


def _answer(status: HTTPStatus, error: bytes) -> Response:
    # Of a body that does not come or does not end nothing more is waited for.
    ends = status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return Response(error, status, {"connection": "close"} if ends else None, media_type="application/json")


def _once(body: bytes, receive: Receive) -> Receive:
    """The whole body, and after it what else comes: that the client has left."""
    given = False

    async def received() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return received
