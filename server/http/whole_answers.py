"""The answers of the modern era, in one piece: a request that asks for no news before its answer is answered as JSON.

The SDK would prepare a stream for each request, with two tasks beside it, which costs more than all else that it does. So
its way for servers without such news is taken. What the stream was good for remains: a call whose client leaves is
cancelled, and one that takes long gets pings, so that no proxy ends it.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.types import JSONRPCMessage, JSONRPCRequest
from mcp_types import LOG_LEVEL_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layerlore.server.http.request_guards import MESSAGE
from layerlore.server.process.sdk_private import PING_SECONDS, STREAM_HEADERS, serve_modern_request

LISTENED_AFTER_SECONDS = 0.05
"""A call that takes longer is cancelled when its client leaves; a shorter one has ended before anybody could tell."""

_HANDSHAKE = frozenset(each.encode() for each in HANDSHAKE_PROTOCOL_VERSIONS)
_LISTEN = "subscriptions/listen"
_NEWS = ("progressToken", LOG_LEVEL_META_KEY)
_BOTH = b"application/json, text/event-stream"


class WholeAnswers:
    """ASGI middleware behind a BodyGuard and before ``app``, the SDK's endpoint: what is answered whole never gets there."""

    def __init__(self, app: ASGIApp, mcp: MCPServer[Any], *, ping_seconds: float = PING_SECONDS) -> None:
        self._app = app
        self._mcp = mcp
        self._ping_seconds = ping_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and _may_be_whole(scope["headers"]) and not _asks_for_news(scope.get(MESSAGE)):
            answer = _Answer(receive, send, self._ping_seconds)
            await answer.serve(self._mcp, scope)
        else:
            await self._app(scope, receive, send)


def _may_be_whole(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request is of the modern era and takes either form of an answer."""
    modern = takes_both = False
    for name, value in headers:
        if name == b"mcp-protocol-version":
            modern = value not in _HANDSHAKE
        elif name == b"accept":
            takes_both = value == _BOTH or _takes_both(value)
    return modern and takes_both


def _asks_for_news(message: JSONRPCMessage | None) -> bool:
    """Whether a request asks for a listen stream, or for its progress or its log on the way to its answer."""
    if not isinstance(message, JSONRPCRequest):
        return True
    meta = (message.params or {}).get("_meta")
    return message.method == _LISTEN or (isinstance(meta, dict) and not meta.keys().isdisjoint(_NEWS))


def _takes_both(accept: bytes) -> bool:
    """As the SDK understands the header."""
    taken = {each.partition(b";")[0].strip().lower() for each in accept.split(b",")}
    anything = b"*/*" in taken
    return anything or (
        not taken.isdisjoint((b"application/json", b"application/*"))
        and not taken.isdisjoint((b"text/event-stream", b"text/*"))
    )


class _Answer:
    """The answer to one request. It becomes a stream, of pings and then itself, once it takes ``ping_seconds``."""

    def __init__(self, receive: Receive, send: Send, ping_seconds: float) -> None:
        self._receive = receive
        self._send = send
        self._ping_seconds = ping_seconds
        self._serving = anyio.CancelScope()
        self._listening: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._begun = self._streams = False

    async def serve(self, mcp: MCPServer[Any], scope: Scope) -> None:
        later = asyncio.get_running_loop().call_later(LISTENED_AFTER_SECONDS, self._listen)
        try:
            with self._serving:
                await serve_modern_request(mcp, scope, self._receive, self.send)
        finally:
            later.cancel()
            if self._listening is not None:
                self._listening.cancel()

    async def send(self, message: Message) -> None:
        """Replaces ASGI's ``send``, for the answer in one piece."""
        self._begun = True
        if not self._streams:
            await self._send(message)
        elif message["type"] == "http.response.body":
            event = b"event: message\r\ndata: " + message["body"] + b"\r\n\r\n"
            async with self._sending:
                await self._send({**message, "body": event})

    def _listen(self) -> None:
        self._listening = asyncio.get_running_loop().create_task(self._attend())

    async def _attend(self) -> None:
        """Ping at intervals until the client leaves, and cancel the call then."""
        leaving = asyncio.create_task(self._wait_until_left())
        try:
            while not leaving.done():
                await asyncio.wait((leaving,), timeout=self._ping_seconds)
                if not (leaving.done() or self._begun):
                    await self._ping()
            self._serving.cancel()
        finally:
            leaving.cancel()

    async def _wait_until_left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _ping(self) -> None:
        began, self._streams = self._streams, True
        async with self._sending:
            if not began:
                await self._send({"type": "http.response.start", "status": 200, "headers": list(STREAM_HEADERS)})
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
