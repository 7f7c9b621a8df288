"""The answers to requests over `/sse`, which are sent one after another on a stream instead of as each request's response."""

from collections import defaultdict, deque
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse
from starlette.types import Message, Scope, Send

from layerlore.server.access.pending_answers import ANSWER, CONNECTION, Connection, PendingAnswer

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
        except BaseException:
            self.end()
            raise
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
        self._open[request.id].append(answer)
        metadata.request_context.scope[ANSWER] = answer

        async def unanswered() -> None:
            self._finish(request.id, answer)

        return replace(item, metadata=replace(metadata, on_request_unanswered=unanswered))

    async def reply(self, replies: Any, item: SessionMessage) -> None:
        """Send a message. For an answer, wait until the client has received it or the stream has ended."""
        is_answer = isinstance(item.message, JSONRPCResponse | JSONRPCError)
        if self._waiting >= MOST_WAITING and self._connection is not None:
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


class _Wrapped:
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


class IncomingMessages(_Wrapped):
    """The stream of messages from the client, each request with its answer."""

    @property
    def last_context(self) -> Any:
        return self._inner.last_context

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._inner.receive()
        return self._answers.begin(item) if isinstance(item, SessionMessage) else item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class OutgoingMessages(_Wrapped):
    """The stream of messages to the client."""

    async def send(self, item: SessionMessage) -> None:
        await self._answers.reply(self._inner, item)
