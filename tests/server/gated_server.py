"""A server on a socket with credentials of a test's own, and clients of it that come as somebody."""

import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from layerlore.server.access.credentials import RIGHTS, Principal
from layerlore.server.access.exposure import allowed
from layerlore.server.access.gate import Gate, ProtectedResource
from layerlore.server.access.open_requests import AGAIN_SECONDS
from layerlore.server.http.connections import ConnectionLimits, Connections
from layerlore.server.http.transport import DrainingServer, build_app, open_listener
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.runtime.tool_server import ToolServer, build_server
from layerlore.server.settings.settings import Settings, load_settings

PATIENCE = 120.0  # seconds: only a hang takes so long
ACCEPT = {"accept": "application/json, text/event-stream"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INITIALIZE = {
    **PING,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
LISTEN = {
    **PING,
    "method": "subscriptions/listen",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
        "notifications": {"resourceSubscriptions": ["memory://profile"]},
    },
}
MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}

ANA = Principal("key:ana", "acme", frozenset({"helper"}), "ana", frozenset(RIGHTS))
BEN = replace(ANA, name="key:ben", resource="ben")
EVE = replace(ANA, name="key:eve", tenant="globex")


class Told:
    """Credentials as the test says they are: by token, and changed at any time."""

    def __init__(self, **principals: Principal) -> None:
        self.principals = principals
        self.failure: Exception | None = None
        self.request: list[str] = []

    async def principal(self, token: str) -> Principal | None:
        self.request.append(token)
        if self.failure is not None:
            raise self.failure
        return self.principals.get(token)


def settings_in(folder: Path, **given: Any) -> Settings:
    made = {"database": f"sqlite:///{folder}/memory.db", "embedding": {"embedder": "none"}, "toolsets": "all"}
    return load_settings({**made, **given}, environ={})


async def _health(_: Request) -> Response:
    return PlainTextResponse("ok")


@contextlib.asynccontextmanager
async def listening(
    mcp: ToolServer,
    settings: Settings,
    gate: Gate,
    connections: Connections | None = None,
    *,
    send_buffer: int = 0,
    port: int = 0,
) -> AsyncIterator[str]:
    """The URL of a server behind a gate, until it is ended. ``send_buffer``: bytes that a socket takes to send;
    ``port``: 0 is any that is free."""
    stop, listens = StopRequest(), anyio.Event()
    connections = connections or Connections(ConnectionLimits())
    app = build_app(mcp, allowed=allowed(settings), gate=gate, body_seconds=connections.limits.body_seconds)
    server = DrainingServer(app, mcp, stop=stop, on_listening=listens.set, drain_seconds=0.2, connections=connections)
    with open_listener("127.0.0.1", port) as listener:
        if send_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            with anyio.fail_after(PATIENCE):
                await listens.wait()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                stop.ask(0)


@contextlib.asynccontextmanager
async def served(
    settings: Settings,
    credentials: Any,
    *,
    again_seconds: float = AGAIN_SECONDS,
    resource: ProtectedResource | None = None,
    port: int = 0,
) -> AsyncIterator[str]:
    """The URL of a server with those credentials, and with `/health`, which needs none."""
    mcp = build_server(settings)
    mcp.custom_route("/health", methods=["GET"])(_health)
    gate = Gate(credentials, resource=resource, again_seconds=again_seconds)
    async with listening(mcp, settings, gate, port=port) as url:
        yield url


def http_client(**options: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(timeout=PATIENCE, **options)


@contextlib.asynccontextmanager
async def connected(
    url: str, token: str, mode: str = "auto", endpoint: str = "mcp", *, hearing: Any = None, **headers: str
) -> AsyncIterator[Client]:
    """The official client, of the modern era (auto) or of the older (legacy); ``hearing`` takes what it is told."""
    sent = {"Authorization": f"Bearer {token}", **headers}
    async with http_client(headers=sent) as http:
        transport = (
            streamable_http_client(f"{url}/mcp", http_client=http)
            if endpoint == "mcp"
            else sse_client(f"{url}/sse", headers=sent)
        )
        async with Client(transport, mode=mode, message_handler=hearing) as client:
            yield client


async def answer(client: Client, tool: str, /, *, meta: Any = None, **arguments: Any) -> Any:
    """The structure that a call must answer with."""
    with anyio.fail_after(PATIENCE):
        result = await client.call_tool(tool, arguments, meta=meta)
    assert not result.is_error, result.content
    return result.structured_content


async def answer_when_free(client: Client, tool: str, /, **arguments: Any) -> None:
    """Call until the server has room for the call."""
    with anyio.fail_after(PATIENCE):
        while (await client.call_tool(tool, arguments)).is_error:
            await anyio.sleep(0.01)


async def refused(client: Client, tool: str, /, *, meta: Any = None, **arguments: Any) -> str:
    """The text of a call that must fail."""
    with anyio.fail_after(PATIENCE):
        result = await client.call_tool(tool, arguments, meta=meta)
    assert result.is_error, result.content
    text: str = result.content[0].text  # type: ignore[union-attr]
    return text


@contextlib.contextmanager
def everything_logged() -> Any:
    """All log records, of all levels, while it is entered."""
    records: list[logging.LogRecord] = []
    catching = logging.Handler()
    catching.emit = records.append  # type: ignore[method-assign]
    root = logging.getLogger()
    level = root.level
    root.addHandler(catching)
    root.setLevel(logging.DEBUG)
    try:
        yield records
    finally:
        root.removeHandler(catching)
        root.setLevel(level)
