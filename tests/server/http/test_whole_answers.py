"""Requests of the modern era over HTTP that are answered in one piece, and what becomes of those that take long."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Message

from layerlore.server.http.request_guards import BodyGuard
from layerlore.server.http.whole_answers import WholeAnswers

from ..gated_server import LISTEN

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:The logging capability is deprecated")]

PATIENCE = 60.0  # seconds: only a hang takes so long
META: dict[str, Any] = LISTEN["params"]["_meta"]
NOTHING: Message = {"type": "http.request", "body": b"", "more_body": False}


class Slow:
    """A server whose tool ``slow`` waits until it may end."""

    def __init__(self, ping_seconds: float) -> None:
        self.began, self.may_end, self.was_cancelled = anyio.Event(), anyio.Event(), anyio.Event()
        mcp = MCPServer("slow", log_level="ERROR")
        mcp.streamable_http_app(transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False))

        @mcp.tool()
        async def slow(ctx: Context[Any, Any]) -> str:
            await ctx.report_progress(0, 1)
            await ctx.session.send_log_message("info", "begun")
            self.began.set()
            try:
                await self.may_end.wait()
            except anyio.get_cancelled_exc_class():
                self.was_cancelled.set()
                raise
            return "done"

        self.mcp = mcp
        self.app = BodyGuard(WholeAnswers(StreamableHTTPASGIApp(mcp.session_manager), mcp, ping_seconds=ping_seconds))


class Posted:
    """A call of ``slow`` over HTTP: what was sent of its answer, and whether its client leaves."""

    def __init__(self, slow: Slow, accept: bytes, meta: dict[str, Any]) -> None:
        params = {"name": "slow", "arguments": {}, "_meta": {**META, **meta}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        self._body: list[Message] = [{**NOTHING, "body": body}]
        self._slow = slow
        self._headers = [
            *((b"host", b"localhost"), (b"content-type", b"application/json"), (b"accept", accept)),
            *((b"mcp-protocol-version", b"2026-07-28"), (b"mcp-method", b"tools/call"), (b"mcp-name", b"slow")),
        ]
        self.leaves = anyio.Event()
        self.sent: list[Message] = []
        self._more = anyio.Event()

    async def run(self) -> None:
        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": self._headers}
        await self._slow.app(scope, self._receive, self._send)

    async def sees(self, messages: int) -> None:
        """Wait until so many messages of the answer were sent."""
        while len(self.sent) < messages:
            await self._more.wait()

    @property
    def kind(self) -> bytes:
        return dict(self.sent[0]["headers"])[b"content-type"]

    @property
    def pieces(self) -> list[bytes]:
        return [message["body"] for message in self.sent[1:]]

    async def _receive(self) -> Message:
        if self._body:
            return self._body.pop()
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)
        self._more.set()
        self._more = anyio.Event()


@asynccontextmanager
async def call(
    ping_seconds: float = 600.0, *, accept: bytes = b"application/json, text/event-stream", **meta: Any
) -> AsyncIterator[tuple[Slow, Posted]]:
    """A call that is under way; it has ended afterwards."""
    slow = Slow(ping_seconds)
    with anyio.fail_after(PATIENCE):
        async with slow.mcp.session_manager.run(), anyio.create_task_group() as tasks:
            posted = Posted(slow, accept, meta)
            tasks.start_soon(posted.run)
            yield slow, posted


def text_of(message: bytes) -> str:
    return str(json.loads(message)["result"]["content"][0]["text"])


@pytest.mark.parametrize("accept", [b"application/json, text/event-stream", b"*/*", b"text/*;q=0.5,Application/json"])
async def test_an_answer_is_json_in_one_piece(accept: bytes) -> None:
    async with call(accept=accept) as (slow, posted):
        await slow.began.wait()
        slow.may_end.set()
    assert posted.kind == b"application/json"
    [answer] = posted.pieces
    assert text_of(answer) == "done"


async def test_one_that_takes_long_gets_pings_and_is_then_the_event_after_them() -> None:
    async with call(0.01) as (slow, posted):
        await posted.sees(3)
        slow.may_end.set()
    assert posted.kind == b"text/event-stream"
    *pings, answer = posted.pieces
    assert set(pings) == {b": ping\r\n\r\n"}
    event, data = answer.removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert event == b"event: message"
    assert text_of(data.removeprefix(b"data: ")) == "done"
    assert [message.get("more_body", False) for message in posted.sent[1:]] == [*[True] * len(pings), False]


@pytest.mark.parametrize("ping_seconds", [600.0, 0.01])
async def test_a_call_whose_client_leaves_is_cancelled(ping_seconds: float) -> None:
    async with call(ping_seconds) as (slow, posted):
        await slow.began.wait()
        posted.leaves.set()
    assert slow.was_cancelled.is_set()
    assert not any(b"result" in piece for piece in posted.pieces)


@pytest.mark.parametrize(
    ("asked", "news"),
    [
        ({"progressToken": "p"}, "notifications/progress"),
        ({"io.modelcontextprotocol/logLevel": "info"}, "notifications/message"),
    ],
)
async def test_who_asks_for_news_of_a_call_gets_it_before_the_answer(asked: dict[str, Any], news: str) -> None:
    async with call(**asked) as (slow, posted):
        await posted.sees(2)
        slow.may_end.set()
    assert posted.kind == b"text/event-stream"
    methods = [json.loads(piece.split(b"data: ")[1]).get("method") for piece in posted.pieces]
    assert methods == [news, None]


async def test_who_does_not_take_both_forms_is_refused() -> None:
    async with call(accept=b"application/json") as (_, posted):
        await posted.sees(1)
    assert posted.sent[0]["status"] == 406
