"""Clients that do not read their answers: their calls go on, what waits for them has a bound, and they are cut off."""

import contextlib
import itertools
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from layerlore.server.access.open_requests import UnsentLimits
from layerlore.server.http.connections import ConnectionLimits, Connections

from ..gated_server import (
    ACCEPT,
    ANA,
    BEN,
    EVE,
    INITIALIZE,
    PATIENCE,
    Told,
    answer,
    answer_when_free,
    connected,
    http_client,
    refused,
    settings_in,
)
from ..limited_server import limited_over_http, only
from ..unread import INITIALIZED, Unread, call

pytestmark = [pytest.mark.anyio, pytest.mark.programs, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

LARGE = 200_000  # far more than the sockets of these tests take
PAGE = {"thread_id": "t", "format": "json"}
END_OF_HEAD = b"\r\n\r\n"


class Begun:
    """Middleware that counts calls of `get_messages`, and has much to tell a client that calls `list_threads`."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, ctx: Any, call_next: Any) -> Any:
        called = ctx.params["name"] if ctx.method == "tools/call" else ""
        self.count += called == "get_messages"
        if called == "list_threads":
            await ctx.session.send_log_message("info", "x" * LARGE)
        return await call_next(ctx)

    async def until(self, count: int) -> None:
        with anyio.fail_after(PATIENCE):
            while self.count < count:
                await anyio.sleep(0.005)


@dataclass
class ServedClients:
    url: str
    begun: Begun
    connections: Connections

    @property
    def unsent(self) -> list[int]:
        """The bytes of each connection that has any."""
        return [each.unsent for each in self.connections._open if each.unsent]

    async def until_unsent(self, connections: int) -> None:
        with anyio.fail_after(PATIENCE):
            while len(self.unsent) != connections:
                await anyio.sleep(0.005)


@contextlib.asynccontextmanager
async def served(folder: Path, *, write_seconds: float = 60.0, **rates: Any) -> AsyncIterator[ServedClients]:
    """A server with a large message of each tenant."""
    settings = settings_in(folder, rates=only(**rates).model_dump())
    begun, connections = Begun(), Connections(ConnectionLimits(write_seconds=write_seconds))
    told = Told(ana=ANA, ben=BEN, eve=EVE)
    async with limited_over_http(settings, told, begun, connections=connections, send_buffer=4096) as url:
        for key in ("ana", "ben", "eve"):
            async with connected(url, key) as client:
                message = {"role": "user", "content": "x" * LARGE}
                await answer(client, "add_messages", messages=[message], thread_id="t")
        yield ServedClients(url, begun, connections)


async def sse(client: Unread, url: str) -> str:
    """Open a stream and begin a session on it. Returns where to post to."""
    await client.send("GET", "/sse")
    told = b""
    while END_OF_HEAD not in told.partition(b"session_id=")[2]:
        told += await client.until(b"\n")
    place = told.decode().partition("data: ")[2].split()[0]
    async with http_client(base_url=url, headers={"X-API-Key": "ana"}) as http:
        assert (await http.post(place, json=INITIALIZE)).status_code == 202
        await client.until(b"protocolVersion")
        assert (await http.post(place, json=INITIALIZED)).status_code == 202
    return place


async def session(url: str) -> dict[str, str]:
    """Begin one of the older protocol. Returns its header."""
    async with http_client(base_url=url, headers={"X-API-Key": "ana"}) as http:
        headers = {"accept": "application/json, text/event-stream"}
        opened = await http.post("/mcp", json=INITIALIZE, headers=headers)
        headers |= {"mcp-session-id": opened.headers["mcp-session-id"]}
        assert (await http.post("/mcp", json=INITIALIZED, headers=headers)).status_code == 202
    return {"mcp-session-id": headers["mcp-session-id"]}


async def taking(client: Unread, server: ServedClients, pause: float = 0.0) -> bytes:
    """Read, a little at a time, until the server has sent everything."""
    found = b""
    with anyio.fail_after(PATIENCE):
        while server.unsent:
            with contextlib.suppress(BlockingIOError):
                found += client.socket.recv(8192)
            await anyio.sleep(pause)
        with contextlib.suppress(BlockingIOError):
            while piece := client.socket.recv(8192):
                found += piece
                await anyio.sleep(0.01)
    return found


@pytest.mark.parametrize("kind", ["modern", "legacy", "sse"])
async def test_a_call_runs_until_its_answer_is_taken(tmp_path: Path, kind: str) -> None:
    async with served(tmp_path, tenant_calls_at_once=1) as server, connected(server.url, "ben") as other:
        with Unread(server.url, "ana") as client:
            if kind == "sse":
                place = await sse(client, server.url)
                async with http_client(base_url=server.url, headers={"X-API-Key": "ana"}) as http:
                    assert (await http.post(place, json=call("get_messages", **PAGE))).status_code == 202
            elif kind == "legacy":
                await client.send("POST", "/mcp", call("get_messages", **PAGE), **await session(server.url))
            else:
                await client.call("get_messages", **PAGE)
            await server.until_unsent(1)
            assert "too many calls at once of your tenant together: 1 are allowed" in await refused(
                other, "memory_status"
            )
            async with connected(server.url, "eve") as foreign:
                await answer(foreign, "memory_status")
            assert b"x" * 1000 in await taking(client, server)
            await answer(other, "memory_status")


async def test_who_takes_nothing_for_a_while_is_cut_off_and_its_call_is_over(tmp_path: Path) -> None:
    async with served(tmp_path, tenant_calls_at_once=2, write_seconds=1.0) as server:
        with Unread(server.url, "ana") as one, Unread(server.url, "ana") as stream:
            place = await sse(stream, server.url)
            await one.call("get_messages", **PAGE)
            async with http_client(base_url=server.url, headers={"X-API-Key": "ana"}) as http:
                await http.post(place, json=call("get_messages", **PAGE))
                await server.until_unsent(2)
                await server.until_unsent(0)
            async with connected(server.url, "ben") as client:
                for _ in range(3):
                    await answer(client, "memory_status")
            for cut_off in (one, stream):
                assert len(await cut_off.until(b"never")) < LARGE


async def test_a_stream_of_news_that_is_not_read_is_cut_off(tmp_path: Path) -> None:
    async with served(tmp_path, write_seconds=0.5) as server, http_client(base_url=server.url) as http:
        own = {"X-API-Key": "ana", **ACCEPT, **await session(server.url)}
        with Unread(server.url, "ana") as stream:
            await stream.send("GET", "/mcp", **own)
            await stream.until(END_OF_HEAD)
            await http.post("/mcp", json=call("list_threads"), headers=own)
            await server.until_unsent(1)
            await server.until_unsent(0)
            assert len(await stream.until(b"never")) < LARGE
        async with http.stream("GET", "/mcp", headers=own) as again:  # of which a session has one at a time
            assert again.status_code == 200


async def test_who_reads_slowly_is_not_cut_off(tmp_path: Path) -> None:
    async with served(tmp_path, write_seconds=0.5) as server:
        with Unread(server.url, "ana") as client:
            await client.call("get_messages", **PAGE)
            await server.until_unsent(1)
            found = await taking(client, server, pause=0.01)  # which takes several times as long
            assert f"content-length: {len(found.partition(END_OF_HEAD)[2])}".encode() in found


async def test_what_waits_to_be_read_has_a_bound_and_others_are_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    budget = 4 * LARGE
    async with (
        served(tmp_path, tenant_unsent_bytes=2 * budget, principal_unsent_bytes=budget) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        for number in range(30):
            client = stack.enter_context(Unread(server.url, ("ana", "ben")[number % 2]))
            await client.call("get_messages", **PAGE)
            await server.begun.until(number + 1)
        await server.until_unsent(4)
        with anyio.fail_after(PATIENCE):
            while len(server.connections._open) > 4:
                await anyio.sleep(0.005)
        assert len(server.unsent) == 4
        assert sum(server.unsent) <= 2 * budget
        async with connected(server.url, "eve") as foreign, connected(server.url, "ana") as own:
            assert (await answer(foreign, "get_messages", **PAGE))["total"] == 1
            assert (await answer(own, "get_messages", **PAGE))["total"] == 1
    told = [record.getMessage() for record in caplog.records if "reads no answers" in record.getMessage()]
    assert len(told) == 1


class Waiting:
    """A connection whose client reads nothing."""

    def __init__(self, unsent: int) -> None:
        self.unsent = unsent
        self.gone = anyio.Event()

    async def wait_sent(self) -> None:
        await self.gone.wait()

    def abort(self) -> None:
        self.unsent = 0
        self.gone.set()


@pytest.mark.parametrize("order", sorted(set(itertools.permutations("aaabbb"))), ids="".join)
async def test_who_is_beyond_its_own_limit_closes_no_connection_of_others(order: tuple[str, ...]) -> None:
    limits = UnsentLimits(of_principal=20, of_tenant=40)
    opened: dict[str, list[Waiting]] = {"a": [], "b": []}
    async with anyio.create_task_group() as tasks:
        for name in order:
            opened[name].append(connection := Waiting(10))
            tasks.start_soon(limits.wait_sent, replace(ANA, name=name), connection)
            await anyio.wait_all_tasks_blocked()
        assert [[each.unsent for each in of_one] for of_one in opened.values()] == [[0, 10, 10]] * 2
        tasks.cancel_scope.cancel()


async def test_of_calls_on_a_stream_that_is_not_read_only_those_begin_that_may_run(tmp_path: Path) -> None:
    async with served(tmp_path, tenant_calls_at_once=2, tenant_requests_at_once=3) as server:
        with Unread(server.url, "ana") as stream:
            place = await sse(stream, server.url)
            async with http_client(base_url=server.url, headers={"X-API-Key": "ana"}) as http:
                for number in range(20):
                    await http.post(place, json=call("get_messages", number, **PAGE))
                    listing = {"jsonrpc": "2.0", "id": 1000 + number, "method": "tools/list"}
                    await http.post(place, json=listing)
            assert server.begun.count == 2
            said = await stream.until(b'"id":1019')
            assert said.count(b"are allowed; try again") > 30
            # The two may still be at work: a first call loads what it needs.
            async with connected(server.url, "ben") as client:
                await answer_when_free(client, "memory_status")


async def test_a_call_that_its_client_cancels_gives_its_turn_back(tmp_path: Path) -> None:
    async with served(tmp_path, tenant_calls_at_once=1) as server:
        with Unread(server.url, "ana") as stream:
            place = await sse(stream, server.url)
            async with http_client(base_url=server.url, headers={"X-API-Key": "ana"}) as http:
                for number in range(3):
                    await http.post(place, json=call("memory_status", number))
                    gone = {"method": "notifications/cancelled", "params": {"requestId": number}}
                    await http.post(place, json={"jsonrpc": "2.0", **gone})
            async with connected(server.url, "ben") as client:
                await answer_when_free(client, "memory_status")
