"""Limits over HTTP, and what becomes of callers that go on beyond them."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError

from layerlore.server.access.credentials import PRINCIPAL_CLAIM, LocalKey, local_principal
from layerlore.server.limits import room
from layerlore.server.limits import throttle as flood
from layerlore.server.limits.room import Room
from layerlore.server.limits.throttle import Flood, Throttle
from layerlore.server.tools.toolsets import list_writers

from ..gated_server import (
    ACCEPT,
    ANA,
    BEN,
    EVE,
    INITIALIZE,
    LISTEN,
    MODERN,
    PATIENCE,
    Told,
    answer,
    answer_when_free,
    connected,
    refused,
    settings_in,
)
from ..limited_server import Stopped, limited_over_http, only

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

LIST = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how many seconds requests were held back, each for a moment only."""
    seconds: list[float] = []

    async def sleep(delay: float) -> None:
        seconds.append(delay)
        await anyio.sleep(delay)

    monkeypatch.setattr(flood, "HELD_SECONDS", (0.02, 0.05))
    monkeypatch.setattr(flood, "anyio", SimpleNamespace(sleep=sleep))
    return seconds


@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_gets_a_refusal_as_an_answer_on_both_endpoints(tmp_path: Path, endpoint: str, mode: str) -> None:
    settings = settings_in(tmp_path, rates=only(principal_calls_per_second=3).model_dump())
    async with limited_over_http(settings, Told(ana=ANA, eve=EVE)) as url:
        async with connected(url, "ana", mode, endpoint) as client:
            while not (result := await client.call_tool("memory_status", {})).is_error:
                pass
            assert "too many calls: 3 a second are allowed; try again in 0." in result.content[0].text  # type: ignore[union-attr]
            assert 0 < (result.meta or {})["layerlore/retry_after_seconds"] <= 0.4
        async with connected(url, "eve", mode, endpoint) as client:
            await answer(client, "memory_status")


async def test_the_local_key_is_not_limited(tmp_path: Path) -> None:
    rates = dict.fromkeys(("principal_calls_per_second", "tenant_calls_per_second", "tenant_calls_at_once"), 1)
    settings = settings_in(tmp_path, rates=only(**rates).model_dump())
    async with (
        limited_over_http(settings, LocalKey("key", local_principal("a", "r"))) as url,
        connected(url, "key") as client,
    ):
        for _ in range(5):
            await answer(client, "memory_status")


async def test_bytes_are_those_of_the_request(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, rates=only(principal_bytes_per_second=10_000).model_dump())
    async with limited_over_http(settings, Told(ana=ANA)) as url, connected(url, "ana") as client:
        await client.list_tools()  # which a client reads after its first call otherwise
        messages = [{"role": "user", "content": "x" * 200_000}]
        # A request larger than the whole allowance waits until all of it is there.
        await answer_when_free(client, "add_messages", thread_id="t", messages=messages)
        assert "too many bytes: 10,000 a second are allowed" in await refused(client, "memory_status")


class Asked:
    """A server behind a flood's guard, which notes the requests that come to it."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.count += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def guarded(app: Any, clock: Stopped, **rates: Any) -> tuple[Throttle, Any]:
    throttle = Throttle(only(**rates), lambda _: ANA, list_writers(), clock=clock)
    return throttle, Flood(throttle, Room(), lambda: 0.0).wrap(app)


def request(principal: Any = ANA, method: str = "POST", length: int = 10) -> dict[str, Any]:
    token = type("Token", (), {"claims": {PRINCIPAL_CLAIM: principal}})
    headers = [(b"content-length", str(length).encode())]
    return {"type": "http", "method": method, "headers": headers, "user": type("User", (), {"access_token": token})}


async def send(app: Any, scope: dict[str, Any]) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of the response."""
    sent: list[Any] = []

    async def put(message: Any) -> None:
        sent.append(message)

    async def nothing() -> Any:
        raise AssertionError("a request that is held back is not read")

    await app(scope, nothing, put)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def spend(throttle: Throttle, principal: Any, calls: int) -> None:
    throttle.find_excess(principal, 0)  # so that there is an account
    throttle._accounts(principal)[0].buckets["calls"].spend(calls, 0.0)


async def test_who_is_within_the_limits_is_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flood, "HELD_SECONDS", (1000.0, 1000.0))
    app = Asked()
    throttle, guard = guarded(app, Stopped(), principal_calls_per_second=1)
    spend(throttle, ANA, 1)
    with anyio.fail_after(PATIENCE):
        assert (await send(guard, request()))[0] == 200
        spend(throttle, ANA, 1)
        assert (await send(guard, request(BEN)))[0] == 200
        assert (await send(guard, request(replace(ANA, tenant="globex"))))[0] == 200
        assert (await send(guard, request(local_principal("a", "r"))))[0] == 200
    assert app.count == 4


async def test_who_is_beyond_them_is_held_back_unread_and_then_answered(held: list[float]) -> None:
    app = Asked()
    throttle, guard = guarded(app, Stopped(), principal_calls_per_second=1)
    spend(throttle, ANA, 2)
    assert (await send(guard, request()))[0] == 200
    assert len(held) == 1
    assert 0.02 <= held[0] <= 0.05


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_requests_without_a_body_count_and_are_held_back_too(method: str, held: list[float]) -> None:
    app = Asked()
    throttle, guard = guarded(app, Stopped(), principal_calls_per_second=1)
    for _ in range(4):
        assert (await send(guard, request(method=method)))[0] == 200
    assert throttle.find_excess(ANA, 0, method) is not None
    assert throttle.find_excess(ANA, 0, "tools/call") is None
    assert held == []
    assert (await send(guard, request(method=method)))[0] == 200
    assert len(held) == 1


class Open:
    """A server whose answers stay open until they are let go."""

    def __init__(self) -> None:
        self.begun = anyio.Semaphore(0)
        self.let_go = anyio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun.release()
        await self.let_go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def test_a_tenant_has_so_many_streams_open_and_others_have_theirs() -> None:
    app = Open()
    throttle = Throttle(only(), lambda _: ANA, list_writers(), clock=Stopped())
    guard = Flood(throttle, Room(streams=2)).wrap(app)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for each in (ANA, BEN, EVE):
                tasks.start_soon(send, guard, request(each, method="GET"))
                await app.begun.acquire()
            status, headers, body = await send(guard, request(ANA, method="GET"))
            assert (status, headers[b"retry-after"]) == (429, b"5")
            assert "too many open streams: 2 of a tenant are allowed" in json.loads(body)["error"]["message"]
            app.let_go.set()
        assert (await send(guard, request(ANA, method="GET")))[0] == 200


async def test_bodies_that_are_kept_waiting_for_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_READING_BYTES", 100)
    arrives, begun = anyio.Event(), anyio.Semaphore(0)

    async def reading(scope: Any, receive: Any, send: Any) -> None:
        begun.release()
        await receive()
        await Asked()(scope, receive, send)

    _, guard = guarded(reading, Stopped())

    async def post(principal: Any, length: int) -> int:
        sent: list[Any] = []

        async def receive() -> Any:
            await arrives.wait()
            return {"type": "http.request", "body": b"", "more_body": False}

        async def put(message: Any) -> None:
            sent.append(message)

        await guard(request(principal, length=length), receive, put)
        return int(sent[0]["status"])

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for each, length in ((ANA, 60), (BEN, 40), (EVE, 1000)):  # one of any size is read
                tasks.start_soon(post, each, length)
                await begun.acquire()
            assert await post(ANA, 1) == 429
            assert await post(EVE, 1) == 429
            arrives.set()
        assert await post(ANA, 60) == 200


async def test_of_very_many_at_once_most_are_answered_with_429(
    monkeypatch: pytest.MonkeyPatch, held: list[float]
) -> None:
    monkeypatch.setattr(flood, "MOST_ANSWERED", 3)
    monkeypatch.setattr(flood, "MOST_HELD", 5)
    monkeypatch.setattr(flood, "HELD_SECONDS", (0.3, 0.3))
    app, statuses = Asked(), []
    throttle, guard = guarded(app, Stopped(), principal_calls_per_second=1)
    spend(throttle, ANA, 12)

    async def one() -> None:
        status, headers, body = await send(guard, request())
        statuses.append(status)
        if status == 429:
            assert headers[b"retry-after"] == b"11"
            error = json.loads(body)
            assert error["id"] is None
            assert error["error"]["data"] == {"retry_after_seconds": 11.0}

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(one)
    assert sorted(statuses) == [200] * 3 + [429] * 7
    assert held == [0.3] * 5
    assert app.count == 3
    throttle._accounts(ANA)[0].buckets["calls"].spend(-12, 0.0)
    assert (await send(guard, request()))[0] == 200


async def test_what_is_refused_unread_counts(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, rates=only(principal_calls_per_second=2).model_dump())
    async with (
        limited_over_http(settings, Told(ana=ANA)) as url,
        httpx2.AsyncClient(headers={"X-API-Key": "ana", **ACCEPT}, timeout=PATIENCE) as http,
        connected(url, "ana", "legacy") as client,
    ):
        for _ in range(30):
            answered = await http.post(f"{url}/mcp", content=b"{", headers={"content-type": "application/json"})
            assert answered.status_code == 400
        with pytest.raises(MCPError, match="too many requests"):
            await client.list_tools()


async def test_a_client_whose_calls_are_beyond_the_limits_is_not_held_back_when_it_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flood, "HELD_SECONDS", (1000.0, 1000.0))
    throttle, guard = guarded(Asked(), Stopped(), principal_calls_per_second=1)
    spend(throttle, ANA, 2)
    with anyio.fail_after(PATIENCE):
        listing = request()
        listing["headers"].append((b"mcp-method", b"tools/list"))
        assert (await send(guard, listing))[0] == 200
    with anyio.move_on_after(0.05) as waited:
        await send(guard, request())
    assert waited.cancelled_caught


async def test_too_many_bytes_hold_back_too() -> None:
    throttle, _ = guarded(Asked(), Stopped(), principal_bytes_per_second=100)
    assert throttle.find_excess(ANA, 150) is None
    throttle._accounts(ANA)[0].buckets["bytes"].spend(150, 0.0)
    assert throttle.find_excess(ANA, 50) is None
    assert str(throttle.find_excess(ANA, 51)) == "too many bytes: 100 a second are allowed; try again in 0.1 s"


async def test_a_429_reaches_a_client_as_the_answer_to_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flood, "MOST_ANSWERED", 0)
    settings = settings_in(tmp_path, rates=only(principal_calls_per_second=2).model_dump())

    async def call_on(client: Client) -> None:
        while True:
            await client.call_tool("memory_status", {})

    async with limited_over_http(settings, Told(ana=ANA)) as url, connected(url, "ana") as client:
        with anyio.fail_after(PATIENCE), pytest.raises(MCPError, match="too many calls: 2 a second") as caught:
            await call_on(client)
        assert caught.value.error.data["retry_after_seconds"] > 0
        async with httpx2.AsyncClient(headers={"X-API-Key": "ana", **ACCEPT}, timeout=PATIENCE) as http:
            with anyio.fail_after(PATIENCE):
                while (response := await http.post(f"{url}/mcp", json=LIST)).status_code != 429:
                    pass
            assert response.headers["retry-after"] == "1"


async def test_a_tenant_listens_on_so_many_streams_and_others_on_theirs(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, rates=only(tenant_streams=2).model_dump())
    async with (
        limited_over_http(settings, Told(ana=ANA, ben=BEN, eve=EVE)) as url,
        httpx2.AsyncClient(headers={**ACCEPT, **MODERN}, timeout=PATIENCE) as http,
    ):

        @contextlib.asynccontextmanager
        async def listening(key: str) -> AsyncIterator[str]:
            async with http.stream("POST", f"{url}/mcp", json=LISTEN, headers={"X-API-Key": key}) as stream:
                lines = stream.aiter_lines()
                yield await anext(line async for line in lines if "jsonrpc" in line)

        async with listening("ana") as one, listening("ben") as other, listening("eve") as foreign:
            assert not [told for told in (one, other, foreign) if '"error"' in told]
            async with listening("ana") as refusal:
                assert "too many open streams: 2 of a tenant are allowed" in refusal
        with anyio.fail_after(PATIENCE):
            again = "too many"
            while "too many" in again:  # until the server has seen that the others have gone
                async with listening("ana") as again:
                    pass


async def test_a_tenant_has_so_many_sessions_and_others_have_theirs(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, rates=only(tenant_sessions=2).model_dump())
    async with (
        limited_over_http(settings, Told(ana=ANA, ben=BEN, eve=EVE)) as url,
        httpx2.AsyncClient(headers=ACCEPT, timeout=PATIENCE) as http,
    ):

        async def begin(key: str) -> httpx2.Response:
            return await http.post(f"{url}/mcp", json=INITIALIZE, headers={"X-API-Key": key})

        first, second = await begin("ana"), await begin("ben")
        assert (first.status_code, second.status_code) == (200, 200)
        for path in ("/mcp", "/mcp/"):
            refusal = await http.post(url + path, json=INITIALIZE, headers={"X-API-Key": "ana"})
            assert (refusal.status_code, refusal.headers["retry-after"]) == (429, "5")
            assert "too many open sessions: 2 of a tenant are allowed" in refusal.json()["error"]["message"]
            assert "mcp-session-id" not in refusal.headers
        assert (await begin("eve")).status_code == 200
        async with connected(url, "ana") as client:  # of the protocol without sessions
            await answer(client, "memory_status")
        ending = {"X-API-Key": "ana", "Mcp-Session-Id": first.headers["mcp-session-id"]}
        assert (await http.delete(f"{url}/mcp", headers=ending)).status_code == 200
        assert (await begin("ana")).status_code == 200
