"""How requests are answered: whole in one response, or on an SSE stream."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse
from mcp_types import LOG_LEVEL_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layerlore.server.access.open_requests import ANSWER, CONNECTION, Connection, PendingAnswer
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
        # The SDK's endpoint makes tasks and streams for each request, which a short call does not need.
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
            # The usual header is compared first, because parsing it costs more than the rest of this.
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
        # A timer is cheaper than a task, and most calls end before it.
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
            # Once pings have begun, the answer must be an event of the stream.
            event = b"event: message\r\ndata: " + message["body"] + b"\r\n\r\n"
            # A ping and the answer must not mix on the connection.
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
                # Nothing may be sent once the answer has begun.
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
                # The first ping makes the answer a stream: HTTP has no other way to show that the server is alive.
                await self._send({"type": "http.response.start", "status": 200, "headers": list(STREAM_HEADERS)})
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})


MOST_WAITING = 512
"""The most messages that may wait for a client to receive earlier ones; beyond it, its connection is closed."""
_MESSAGE = b"event: message"


class SseAnswers:
    """The answers on one stream: which of its messages the client has received, and which requests they answer. ``scope``
    and ``send`` are ASGI's, of the stream's request; ``send`` returns when the client has received the data."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._connection: Connection | None = scope.get(CONNECTION)
        self._send = send
        self._open: defaultdict[Any, deque[PendingAnswer]] = defaultdict(deque)
        self._sent = 0
        self._received = 0
        self._changed = anyio.Event()
        self._waiting = 0
        self._ended = False

    async def send(self, message: Message) -> None:
        """Replaces the stream's ASGI ``send``."""
        try:
            await self._send(message)
        # Also for a cancellation, or requests would wait for a client that is gone.
        except BaseException:
            self.end()
            raise
        # Pings and the endpoint's address are sent on the stream, too, and answer nothing.
        if message.get("body", b"").startswith(_MESSAGE):
            self._received += 1
            self._notify()
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.end()

    def end(self) -> None:
        """Mark the stream as ended: every open answer is over."""
        self._ended = True
        self._notify()
        while self._open:
            for answer in self._open.popitem()[1]:
                answer.finish()

    def wrap_messages(self, messages: Any) -> "IncomingMessages":
        """The stream of incoming messages, in which each request carries its answer."""
        return IncomingMessages(messages, self)

    def wrap_replies(self, replies: Any) -> "OutgoingMessages":
        """The stream of outgoing messages."""
        return OutgoingMessages(replies, self)

    def begin(self, item: SessionMessage) -> SessionMessage:
        """Begin the answer of an incoming request. Returns the message that carries it."""
        request, metadata = item.message, item.metadata
        if self._ended or not (isinstance(request, JSONRPCRequest) and isinstance(metadata, ServerMessageMetadata)):
            return item
        answer = PendingAnswer()
        # A client may use an id again before the first answer has come.
        self._open[request.id].append(answer)
        metadata.request_context.scope[ANSWER] = answer

        async def unanswered() -> None:
            self._finish(request.id, answer)

        return replace(item, metadata=replace(metadata, on_request_unanswered=unanswered))

    async def reply(self, replies: Any, item: SessionMessage) -> None:
        """Send a message. For an answer, wait until the client has received it or the stream has ended."""
        is_answer = isinstance(item.message, JSONRPCResponse | JSONRPCError)
        if self._waiting >= MOST_WAITING and self._connection is not None:
            # A client that sends but does not read must not fill the server's memory.
            self._connection.abort()
        self._waiting += 1
        try:
            await replies.send(item)  # numbered in the order in which they go out
            self._sent += 1
            number = self._sent
            while is_answer and self._received < number and not self._ended:
                await self._changed.wait()
        finally:
            self._waiting -= 1
            if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                self._finish(item.message.id)

    def _notify(self) -> None:
        self._changed.set()
        # An event is used once; those that waited check their condition again.
        self._changed = anyio.Event()

    def _finish(self, key: Any, answer: PendingAnswer | None = None) -> None:
        answers = self._open.get(key)
        if not answers:
            return
        if answer is None:
            answer = answers[0]
        if answer in answers:
            answers.remove(answer)
            answer.finish()
        if not answers:
            self._open.pop(key, None)


class _AnswerWrapper:
    def __init__(self, inner: Any, answers: SseAnswers) -> None:
        self._inner = inner
        self._answers = answers

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class IncomingMessages(_AnswerWrapper):
    """The stream of messages from the client, each request with its answer."""

    @property
    def last_context(self) -> Any:
        return self._inner.last_context

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._inner.receive()
        if isinstance(item, SessionMessage):
            return self._answers.begin(item)
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class OutgoingMessages(_AnswerWrapper):
    """The stream of messages to the client."""

    async def send(self, item: SessionMessage) -> None:
        await self._answers.reply(self._inner, item)
