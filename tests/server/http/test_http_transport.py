"""The sample server as a process on a socket: both protocol eras on both endpoints, and how it ends."""

import itertools
import json
import signal
import socket
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.server.mcpserver import MCPServer
from mcp.types import ResourceUpdatedNotification
from starlette.testclient import TestClient

from layerlore.server.access.credentials import NoCredentials, local_principal
from layerlore.server.access.exposure import AllowedHeaders
from layerlore.server.access.gate import Gate
from layerlore.server.http.transport import build_app, open_listener

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

PATIENCE = 120.0  # seconds: only a hang takes so long
KEY = "mk_0123456789"
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream"}
ROUTES = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages/"),
    ("GET", "/health"),
]


def text_of(result: Any) -> str:
    return result.content[0].text


def transport(url: str, endpoint: str) -> Any:
    return streamable_http_client(url + "/mcp") if endpoint == "mcp" else sse_client(url + "/sse")


class Listener:
    """Takes the news that a client of the handshake era gets."""

    def __init__(self) -> None:
        self._updated: dict[str, anyio.Event] = {}

    async def __call__(self, message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            self._updated[message.params.uri].set()

    async def is_told(self, client: Client) -> None:
        """Return once news gets through, on the GET stream that the client opens in its own time."""
        for uri in map("memory://{}".format, itertools.count()):
            self._updated[uri] = anyio.Event()
            await client.subscribe_resource(uri)
            await client.call_tool("touch", {"uri": uri})
            with anyio.move_on_after(0.2):
                await self._updated[uri].wait()
                return


async def test_the_official_client_works_in_both_eras_on_both_endpoints_in_one_lifespan(sample: Any) -> None:
    async with sample.http() as server:
        for endpoint in ("mcp", "sse"):
            for mode in ("auto", "legacy"):
                await works(server.url, endpoint, mode)
        server.process.terminate()
        assert await server.ended() == 0
    assert sample.marks == ["entered", "left"]
    assert "Traceback" not in sample.stderr


async def works(url: str, endpoint: str, mode: str) -> None:
    listener = Listener()
    with anyio.fail_after(PATIENCE):
        async with Client(transport(url, endpoint), mode=mode, message_handler=listener) as client:
            assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
            assert "echo" in [tool.name for tool in (await client.list_tools()).tools]
            assert text_of(await client.call_tool("echo", {"text": "ä"})) == "ä"
            if mode == "legacy":
                await listener.is_told(client)
            else:
                async with client.listen(resource_subscriptions=["memory://profile"]) as events:
                    await client.call_tool("touch", {"uri": "memory://profile"})
                    assert await anext(events) == ResourceUpdated(uri="memory://profile")


async def test_every_endpoint_wants_the_key_and_takes_it_in_either_header(sample: Any) -> None:
    async with (
        sample.http(key=KEY) as server,
        httpx2.AsyncClient(base_url=server.url, headers=ACCEPT, timeout=PATIENCE) as client,
    ):
        for method, path in ROUTES:
            answer = await client.request(method, path, json=PING if method == "POST" else None)
            assert answer.status_code == (200 if path == "/health" else 401), (method, path)
        for headers in (
            {"Authorization": f"Bearer {KEY}"},
            {"X-API-Key": KEY},
            {"X-API-Key": KEY, "Authorization": "Basic cHJveHk6"},
        ):
            answer = await client.post("/messages/", headers=headers, json=PING)
            assert (answer.status_code, answer.text) == (400, "session_id is required")
            async with (
                httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http_client,
                Client(streamable_http_client(server.url + "/mcp", http_client=http_client)) as mcp,
            ):
                assert text_of(await mcp.call_tool("echo", {"text": "in"})) == "in"
            async with Client(sse_client(server.url + "/sse", headers=headers)) as mcp:
                assert text_of(await mcp.call_tool("echo", {"text": "in"})) == "in"
        for headers in (
            {"X-API-Key": "mk_other"},
            {"X-API-Key": KEY, "Authorization": "Bearer mk_other"},
            {"X-API-Key": ""},
        ):
            answer = await client.post("/mcp", headers=headers, json=PING)
            assert answer.status_code == 401, headers


async def test_every_route_checks_host_and_origin_before_anything_else(sample: Any) -> None:
    async with (
        sample.http(key=KEY) as server,
        httpx2.AsyncClient(base_url=server.url, headers=ACCEPT, timeout=PATIENCE) as client,
    ):
        for method, path in [*ROUTES, ("GET", "/nowhere")]:
            for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)):
                answer = await client.request(method, path, headers={"X-API-Key": KEY, **headers})
                assert answer.status_code == status, (method, path, headers)
        assert (await client.get("/health", headers={"Origin": "http://127.0.0.1:5173"})).status_code == 200


async def test_a_body_above_the_limit_is_refused_on_both_endpoints(sample: Any) -> None:
    async with (
        sample.http() as server,
        httpx2.AsyncClient(base_url=server.url, headers=ACCEPT, timeout=PATIENCE) as client,
    ):
        for path in ("/mcp", "/messages/"):
            for size, refused in ((90_000, False), (100_001, True)):
                body = json.dumps({**PING, "params": {"a": "x" * size}})
                answer = await client.post(path, content=body, headers={"Content-Type": "application/json"})
                assert (answer.status_code == 413) is refused, path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_whatever_is_open_and_calls_in_flight_finish(
    sample: Any, number: signal.Signals
) -> None:
    ready: list[str] = []
    answers: dict[str, str] = {}
    everybody_ready = anyio.Event()
    clients = ["mcp auto", "mcp legacy", "sse auto", "sse legacy"]

    async def in_flight(url: str, name: str) -> None:
        endpoint, mode = name.split()
        listener = Listener()

        async def begun(progress: float, total: float | None, message: str | None) -> None:
            ready.append(name)
            if len(ready) == len(clients):
                everybody_ready.set()

        async def call(client: Client) -> None:
            seconds = 0.8 if endpoint == "sse" else 0.4  # an answer over SSE is not the response of a POST
            result = await client.call_tool("slow", {"seconds": seconds}, progress_callback=begun)
            answers[name] = text_of(result)

        try:
            async with Client(transport(url, endpoint), mode=mode, message_handler=listener) as client:
                await client.list_tools()  # else the client asks for it after the call
                if mode == "legacy":
                    await listener.is_told(client)
                    await call(client)
                else:
                    async with client.listen(resource_subscriptions=["memory://profile"]):
                        await call(client)
        except* (httpx2.HTTPError, MCPError):
            pass  # the server is gone when the client says goodbye

    async with sample.http() as server:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for name in clients:
                    tasks.start_soon(in_flight, server.url, name)
                await everybody_ready.wait()
                server.process.send_signal(number)
                assert await server.ended() == 0
    assert answers == dict.fromkeys(clients, "done")
    assert sample.marks == ["entered", "left"]
    assert "Traceback" not in sample.stderr


async def test_streams_that_stay_open_do_not_hold_up_the_end(sample: Any) -> None:
    """Their clients do not hang up, unlike the official one at the end of a listen stream."""
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    listen = {**PING, "method": "subscriptions/listen", "params": {"_meta": MODERN_META, "notifications": {}}}
    modern = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
    async with (
        sample.http() as server,
        httpx2.AsyncClient(base_url=server.url, headers=ACCEPT, timeout=PATIENCE) as client,
    ):
        opened = await client.post("/mcp", json={**PING, "method": "initialize", "params": initialize})
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        async with (
            client.stream("GET", "/mcp", headers=session) as get,
            client.stream("GET", "/sse") as sse,
            client.stream("POST", "/mcp", json=listen, headers=modern) as listening,
        ):
            assert (get.status_code, sse.status_code, listening.status_code) == (200, 200, 200)
            server.process.terminate()
            assert await server.ended() == 0
            assert b'"result":' in await listening.aread()  # it ended in the way that the protocol provides
    assert sample.marks == ["entered", "left"]


@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
async def test_a_call_that_takes_too_long_gets_an_error_before_the_end(sample: Any, endpoint: str) -> None:
    begun, errors = [anyio.Event(), anyio.Event()], []

    async def call(url: str, mode: str, event: anyio.Event) -> None:
        async def on_progress(*_: Any) -> None:
            event.set()

        try:
            async with Client(transport(url, endpoint), mode=mode) as client:
                try:
                    await client.call_tool("slow", {"seconds": 600}, progress_callback=on_progress)
                except MCPError as error:
                    errors.append(str(error))
        except* httpx2.HTTPError:
            pass  # the server is gone when the client says goodbye

    async with sample.http(drain_seconds=0.1) as server:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for mode, event in zip(("auto", "legacy"), begun, strict=True):
                    tasks.start_soon(call, server.url, mode, event)
                for event in begun:
                    await event.wait()
                server.process.terminate()
                assert await server.ended() == 0
    assert errors == ["The server is shutting down and has cancelled the call."] * 2
    assert sample.marks == ["entered", "left"]
    assert "Traceback" not in sample.stderr


async def test_a_call_that_nothing_can_cancel_is_answered_with_503_and_does_not_hold_up_the_exit(sample: Any) -> None:
    answers: list[httpx2.Response] = []

    async def call(url: str) -> None:
        call = {"name": "stuck", "arguments": {"seconds": 600}, "_meta": MODERN_META}
        headers = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "stuck"}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE) as client:
            answers.append(await client.post("/mcp", json={**PING, "method": "tools/call", "params": call}))

    async with sample.http(drain_seconds=0.1) as server:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, server.url)
                async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client:
                    while sample.marks != ["entered", "stuck"]:
                        await client.get("/health")
                server.process.terminate()
            await server.ended()
    (answer,) = answers
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["error"]["data"] == {"retry_after_seconds": 2}


async def test_the_server_can_be_ended_from_inside_with_an_exit_code(sample: Any) -> None:
    async with sample.http() as server:
        with anyio.fail_after(PATIENCE):
            async with Client(server.url + "/mcp") as client:
                assert text_of(await client.call_tool("end", {"exit_code": 3})) == "ok"
        assert await server.ended() == 3
    assert sample.marks == ["entered", "left"]


async def test_an_address_that_is_taken_is_one_line_of_error_and_exit_code_1(sample: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with anyio.fail_after(PATIENCE):
            ended = await anyio.run_process(sample.command(transport="http", port=port), env=sample.env, check=False)
    assert ended.returncode == 1
    assert ended.stderr.decode() == (
        f"layerlore: cannot listen on 127.0.0.1 port {port}: Address already in use; --port chooses another port\n"
    )
    assert sample.marks == []


async def test_a_lifespan_that_fails_ends_the_server(sample: Any) -> None:
    with anyio.fail_after(PATIENCE):
        ended = await anyio.run_process(sample.command(transport="http", fail=True), env=sample.env, check=False)
    assert ended.returncode == 3
    assert b"RuntimeError: the lifespan failed" in ended.stderr
    assert ended.stdout == b"printed at import\n"  # and not that it listens


def test_connections_send_small_writes_at_once() -> None:
    with open_listener("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_sessions_are_limited_in_number() -> None:
    mcp: MCPServer[Any] = MCPServer("limited", log_level="WARNING")
    gate = Gate(NoCredentials(local_principal("default", "default")))
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    app = build_app(mcp, allowed=AllowedHeaders(["testserver"]), gate=gate, max_sessions=1, session_idle_timeout=60)
    with TestClient(app, headers=ACCEPT) as client:
        statuses = [
            client.post("/mcp", json={**PING, "method": "initialize", "params": initialize}).status_code for _ in "ab"
        ]
    assert statuses == [200, 503]
    assert mcp.session_manager.session_idle_timeout == 60
