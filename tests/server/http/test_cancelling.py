"""A request that its client cancels: it ends, and nothing more is said of it, as far as the transport allows.

On stdio and over SSE a cancelled request gets no answer. Over Streamable HTTP a stream of the handshake era may only end
with a response, so it is an error that says so; in the modern era a client cancels by closing the response.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.sse import sse_client
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from ..conftest import INITIALIZE
from ..gated_server import LISTEN

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

PATIENCE = 120.0  # seconds: only a hang takes so long
ERAS = ["modern", "legacy"]
MODERN_META = LISTEN["params"]["_meta"]
ACCEPT = {"accept": "application/json, text/event-stream"}
BEGUN = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CANCELLED = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}


def request(id_: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def call(id_: str, era: str, tool: str, **arguments: Any) -> dict[str, Any]:
    meta = {"progressToken": id_, **(MODERN_META if era == "modern" else {})}
    return request(id_, "tools/call", {"name": tool, "arguments": arguments, "_meta": meta})


async def cancel_a_call(send: Any, receive: Any, era: str) -> None:
    """Cancel a call that has begun: the next answer is that of the call after it."""
    if era == "legacy":
        await send(request("first", "initialize", INITIALIZE))
        assert (await receive())["id"] == "first"
        await send(BEGUN)
    await send(call("slow", era, "slow", seconds=600))
    assert (await receive())["method"] == "notifications/progress"
    await send(CANCELLED)
    await send(call("next", era, "echo", text="still here"))
    answer = await receive()
    assert (answer["id"], answer["result"]["isError"]) == ("next", False)


@pytest.mark.parametrize("era", ERAS)
async def test_on_stdio_it_ends_without_an_answer(sample: Any, era: str) -> None:
    async with sample.lines() as lines:
        await cancel_a_call(lines.send, lines.receive, era)
        await lines.process.stdin.aclose()
        assert await lines.rest() == b""
        assert await lines.ended() == 0


@pytest.mark.parametrize("era", ERAS)
async def test_over_sse_it_ends_without_an_answer(sample: Any, era: str) -> None:
    async with sample.http(drain_seconds=600.0) as server, sse_client(server.url + "/sse") as (read, write):

        async def send(message: dict[str, Any]) -> None:
            await write.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))

        async def receive() -> dict[str, Any]:
            with anyio.fail_after(PATIENCE):
                received = await read.receive()
            assert isinstance(received, SessionMessage)
            return received.message.model_dump(by_alias=True, exclude_none=True)

        await cancel_a_call(send, receive, era)
        await nothing_is_under_way(server)


async def test_over_http_in_the_handshake_era_its_stream_ends_with_an_error_that_says_so(sample: Any) -> None:
    async with sample.http(drain_seconds=600.0) as server:
        async with httpx2.AsyncClient(base_url=server.url, headers=ACCEPT, timeout=PATIENCE) as client:
            begun = await client.post("/mcp", json=request("first", "initialize", INITIALIZE))
            client.headers["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]
            assert (await client.post("/mcp", json=BEGUN)).status_code == 202
            async with posted(client, call("slow", "legacy", "slow", seconds=600)) as messages:
                assert (await anext(messages))["method"] == "notifications/progress"
                assert (await client.post("/mcp", json=CANCELLED)).status_code == 202
                [answer] = [message async for message in messages]
            assert (answer["id"], answer["error"]) == ("slow", {"code": -32800, "message": "Request cancelled"})
        await nothing_is_under_way(server)


async def test_over_http_in_the_modern_era_closing_the_response_ends_it(sample: Any) -> None:
    named = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "slow"}
    async with sample.http(drain_seconds=600.0) as server:
        async with (
            httpx2.AsyncClient(base_url=server.url, headers={**ACCEPT, **named}, timeout=PATIENCE) as client,
            posted(client, call("slow", "modern", "slow", seconds=600)) as messages,
        ):
            assert (await anext(messages))["method"] == "notifications/progress"
        await nothing_is_under_way(server)


@asynccontextmanager
async def posted(client: httpx2.AsyncClient, message: dict[str, Any]) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The messages of the event stream that answers a POST."""

    async def messages() -> AsyncIterator[dict[str, Any]]:
        async for event in httpx2.EventSource(response):
            if event.data:
                yield json.loads(event.data)

    with anyio.fail_after(PATIENCE):
        async with client.stream("POST", "/mcp", json=message) as response:
            yield messages()


async def nothing_is_under_way(server: Any) -> None:
    """A call that still ran would keep the server from ending for ten minutes."""
    server.process.terminate()
    assert await server.ended() == 0
