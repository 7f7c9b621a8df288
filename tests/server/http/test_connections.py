"""Connections whose clients say nothing, or a byte now and then, and how many of them there may be: all of it before
any credential is looked at."""

import asyncio
import contextlib
import ipaddress
import logging
import resource
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import psutil
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from layerlore.server.access.gate import Gate
from layerlore.server.http.connections import ConnectionLimits, Connections
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.http import HttpSettings

from ..gated_server import ANA, LISTEN, MODERN, PATIENCE, Told, answer, connected, http_client, listening, settings_in
from ..unread import Unread
from .test_http_command import serving

pytestmark = pytest.mark.anyio

HURRIED = ConnectionLimits(head_seconds=0.4, body_seconds=0.4, write_seconds=0.4)
HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def _health(_: Request) -> Response:
    return PlainTextResponse("ok")


@contextlib.asynccontextmanager
async def served(folder: Path, limits: ConnectionLimits, **options: Any) -> AsyncIterator[tuple[str, Connections]]:
    settings = settings_in(folder)
    mcp = build_server(settings)
    mcp.custom_route("/health", methods=["GET"])(_health)
    connections = Connections(limits, **options)
    async with listening(mcp, settings, Gate(Told(ana=ANA)), connections) as url:
        yield url, connections


async def said(url: str, *pieces: bytes, again: bytes = b"") -> bytes:
    """What a server says until it hangs up, to somebody who sends these and then ``again``, again and again."""
    loop, found = asyncio.get_running_loop(), b""
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", urlsplit(url).port))
        for piece in pieces:
            await loop.sock_sendall(client, piece)
        with anyio.fail_after(PATIENCE), contextlib.suppress(ConnectionError):
            while True:
                with anyio.move_on_after(0.05):
                    piece = await loop.sock_recv(client, 65536)
                    if not piece:
                        break
                    found += piece
                if again:
                    await loop.sock_sendall(client, again)
    return found


async def test_who_keeps_the_server_waiting_is_cut_off_and_who_listens_is_not(tmp_path: Path) -> None:
    own = b"X-API-Key: ana\r\n"
    waiting = {
        "says nothing": ((), b""),
        "a head that ends early": ((HEAD,), b""),
        "a dribbling head": ((HEAD + b"X: ",), b"x"),
        "empty lines": ((), b"\r\n"),
        "empty lines after an answer": ((HEALTH,), b"\r\n"),
        "a dribbling second head": ((HEALTH, b"GET /h"), b"x"),
        "a dribbling body without a credential": ((HEAD + b"Content-Length: 1000\r\n\r\n",), b" "),
        "a body that is not read": ((HEALTH[:-2] + b"Content-Length: 1000\r\n\r\n",), b" "),
        "a dribbling chunk": ((HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n", b"{"), b"\r\n1\r\n "),
        "a dribbling trailer": ((HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: "), b"x"),
        "a dribbling body": ((HEAD + own + b"Content-Length: 1000\r\n\r\n",), b" "),
        "a body that does not begin": ((HEAD + own + b"Content-Length: 1000\r\n\r\n",), b""),
    }
    told: dict[str, bytes] = {}
    async with served(tmp_path, HURRIED) as (url, connections):
        with Unread(url, "ana") as news, Unread(url, "ana") as older:
            await news.send("POST", "/mcp", LISTEN, **MODERN)
            await older.send("GET", "/sse")
            for stream in (news, older):
                assert b" 200 OK" in await stream.until(b"data: ")

            async def wait(name: str) -> None:
                pieces, again = waiting[name]
                told[name] = await said(url, *pieces, again=again)

            async with anyio.create_task_group() as tasks:
                for name in waiting:
                    tasks.start_soon(wait, name)
            assert len(connections._open) == 2
            async with connected(url, "ana") as client:
                await answer(client, "add_messages", thread_id="t", messages=[{"role": "user", "content": "x"}])
    statuses = {name: found.split()[1] if found else b"" for name, found in told.items()}
    assert {name for name, status in statuses.items() if status == b"408"} == {
        "a dribbling body",
        "a body that does not begin",
    }
    assert {name for name, status in statuses.items() if not status} == {
        "says nothing",
        "a head that ends early",
        "a dribbling head",
        "empty lines",
    }


async def test_a_connection_between_two_requests_is_kept(tmp_path: Path) -> None:
    async with served(tmp_path, HURRIED) as (url, connections), http_client(base_url=url) as client:
        assert (await client.get("/health")).status_code == 200
        (connection,) = connections._open
        connections.clock = lambda: 10.0**9
        connections.close_overdue()
        assert (await client.get("/health")).status_code == 200
        assert list(connections._open) == [connection]


@pytest.mark.parametrize(
    ("limits", "of"),
    [
        (replace(ConnectionLimits(), most=5), "connections are refused: 5 are open"),
        (replace(ConnectionLimits(), most_of_address=5, exempt=()), "connections of 127.0.0.1 are refused: 5 are open"),
    ],
    ids=["in all", "of an address"],
)
async def test_connections_beyond_the_cap_are_refused_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limits: ConnectionLimits, of: str
) -> None:
    caplog.set_level(logging.WARNING)
    async with served(tmp_path, limits) as (url, connections):
        with contextlib.ExitStack() as stack:
            for _ in range(5):
                stack.enter_context(Unread(url, ""))
            with anyio.fail_after(PATIENCE):
                while len(connections._open) < 5:
                    await anyio.sleep(0.005)
            for _ in range(3):
                refused = await said(url)
                assert b" 503 " in refused
                assert b"retry-after: 5" in refused
        with anyio.fail_after(PATIENCE):
            while connections._open:
                await anyio.sleep(0.005)
        async with http_client(base_url=url) as client:
            assert (await client.get("/health")).status_code == 200
    told = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith(of)


def test_addresses_are_counted_as_those_who_have_them() -> None:
    limits = ConnectionLimits(most_of_address=1, exempt=(ipaddress.ip_network("10.0.0.0/24"),))
    connections = Connections(limits)

    def added(*hosts: str) -> list[bool]:
        return [connections.add(object(), host) for host in hosts]  # type: ignore[arg-type]

    assert added("192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2") == [True, False, False, True]
    assert added("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "fe80::1%eth0") == [True, False, True, True]
    assert added("10.0.0.9", "10.0.0.9", "::ffff:10.0.0.9", "10.0.1.9", "10.0.1.9") == [True] * 4 + [False]
    assert added("", "", "a socket") == [True] * 3


def test_files_are_left_for_others_than_connections(caplog: pytest.LogCaptureFixture) -> None:
    connections = Connections(ConnectionLimits(exempt=()), files=300)
    assert [connections.add(object(), "") for _ in range(151)].count(True) == 150  # type: ignore[arg-type]
    assert "150 connections at most: this process may open 300 files" in caplog.text


async def test_the_program_takes_all_files_that_it_may_open_and_holds_to_the_settings(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = {"LAYERLORE_HTTP__HEAD_SECONDS": "0.5", "LAYERLORE_HTTP__MAX_CONNECTIONS": "3"}
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 400), hard))
    try:
        stack = contextlib.ExitStack()
        served = stack.enter_context(serving(tmp_path / "data", **few))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with stack:
        assert psutil.Process(served.process.pid).rlimit(psutil.RLIMIT_NOFILE) == (hard, hard)
        assert await said(served.url) == b""
        with contextlib.ExitStack() as silent:
            for _ in range(3):
                silent.enter_context(Unread(served.url, ""))
            found = b""
            with anyio.fail_after(PATIENCE):
                while b" 503 " not in found:
                    found = await said(served.url)
        async with http_client(base_url=served.url) as client:
            assert (await client.get("/health")).status_code == 200
    assert "connections are refused: 3 are open" in served.said


def test_trusted_proxies_are_addresses_or_networks() -> None:
    assert HttpSettings(trusted_proxies="10.0.0.5, fd00::/8").trusted_proxies == ["10.0.0.5", "fd00::/8"]
    for wrong in ("proxy", "10.0.0.5/24", "10.0.0.300"):
        with pytest.raises(ValueError, match="addresses or networks are needed"):
            HttpSettings(trusted_proxies=[wrong])
