"""Requests over `/sse`: their answers come by another response than their own, one after the other."""

from collections import defaultdict, deque
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse
from starlette.types import Message, Scope, Send

from layerlore.server.access.answers import ANSWER, CONNECTION, Answer, Connection

MOST_WAITING = 512
"""Messages that wait for a client to take those before them; then its connection is closed."""
_MESSAGE = b"event: message"


class SseAnswers:
    """Of one stream: knows which of its messages are taken, and whose answers they are. ``scope`` and ``send`` are ASGI's,
    of the stream's request; ``send`` returns when its client has taken what it was given."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._connection: Connection | None = scope.get(CONNECTION)
        self._send = send
        self._open: defaultdict[Any, deque[Answer]] = defaultdict(deque)
        self._given = 0
        self._taken = 0
        self._moved = anyio.Event()
        self._waiting = 0
        self._ended = False

    async def send(self, message: Message) -> None:
        """ASGI's, to be used in its place."""
        try:
            await self._send(message)
        except BaseException:
            self.end()
            raise
        if message.get("body", b"").startswith(_MESSAGE):
            self._taken += 1
            self._move()
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.end()

    def end(self) -> None:
        """Nothing more is taken."""
        self._ended = True
        self._move()
        while self._open:
            for answer in self._open.popitem()[1]:
                answer.over()

    def coming(self, messages: Any) -> "Coming":
        """The stream of messages that come in, each request with its answer."""
        return Coming(messages, self)

    def going(self, replies: Any) -> "Going":
        """The stream of messages that go out."""
        return Going(replies, self)

    def begin(self, item: SessionMessage) -> SessionMessage:
        """A request that came in."""
        request, metadata = item.message, item.metadata
        if self._ended or not (isinstance(request, JSONRPCRequest) and isinstance(metadata, ServerMessageMetadata)):
            return item
        answer = Answer()
        self._open[request.id].append(answer)
        metadata.request_context.scope[ANSWER] = answer

        async def unanswered() -> None:
            self._over(request.id, answer)

        return replace(item, metadata=replace(metadata, on_request_unanswered=unanswered))

    async def reply(self, replies: Any, item: SessionMessage) -> None:
        """Send a message, and an answer until it is taken or the stream has ended."""
        is_answer = isinstance(item.message, JSONRPCResponse | JSONRPCError)
        if self._waiting >= MOST_WAITING and self._connection is not None:
            self._connection.abort()
        self._waiting += 1
        try:
            await replies.send(item)  # in the order in which they go out
            self._given += 1
            number = self._given
            while is_answer and self._taken < number and not self._ended:
                await self._moved.wait()
        finally:
            self._waiting -= 1
            if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                self._over(item.message.id)

    def _move(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()

    def _over(self, key: Any, answer: Answer | None = None) -> None:
        answers = self._open.get(key)
        if not answers:
            return
        if answer is None:
            answer = answers[0]
        if answer in answers:
            answers.remove(answer)
            answer.over()
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


class Coming(_Wrapped):
    """A stream to read from."""

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


class Going(_Wrapped):
    """A stream to write to."""

    async def send(self, item: SessionMessage) -> None:
        await self._answers.reply(self._inner, item)
