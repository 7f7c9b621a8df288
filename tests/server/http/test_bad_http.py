"""Requests that are wrong in their HTTP, as bytes on a socket: none gets a status of 500, none leaves a stack trace,
and the next one is served."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx2
import psutil
import pytest

from benchmarks.bad_requests import launch
from benchmarks.raw_requests import PATIENCE, Listening, listening
from layerlore.server.http.connections import MAX_HEAD_BYTES

from ..bad_http import REQUESTS, UNFINISHED
from ..gated_server import LISTEN

pytestmark = [pytest.mark.anyio, pytest.mark.programs]


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Listening]:
    async with listening(launch(folder)) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client:
            with anyio.fail_after(PATIENCE):
                while (await client.get("/ready")).status_code != 200:
                    await anyio.lowlevel.checkpoint()
        yield server
    assert server.tally.amiss() == {}


async def told(server: Listening, data: bytes, *, leave: bool = False) -> bytes:
    """What comes back for these bytes until the server hangs up."""
    found = b""
    async with await anyio.connect_tcp("127.0.0.1", int(server.url.rpartition(":")[2])) as stream:
        with suppress(anyio.BrokenResourceError):  # it has hung up while there was more to send
            await stream.send(data)
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while not leave:
                found += await stream.receive()
    return found


async def test_each_of_them_is_refused_or_served_and_the_next_one_is_served(tmp_path: Path) -> None:
    wrong = []
    async with served(tmp_path) as server, httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client:
        for name, data in REQUESTS:
            found = b""
            with anyio.move_on_after(PATIENCE):
                found = await told(server, data, leave=name in UNFINISHED)
            statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", found)]
            if any(status >= 500 for status in statuses) or (not statuses and name not in UNFINISHED):
                wrong.append((name, found[:200]))
            assert (await client.get("/health")).status_code == 200, name
    assert wrong == []
    assert len(REQUESTS) >= 300


async def test_a_head_is_bounded_before_anybody_is_asked_who_they_are(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        process = psutil.Process(server.process.pid)

        def head(size: int) -> bytes:
            return b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX: " + b"x" * size

        assert b" 200 OK" in await told(server, head(MAX_HEAD_BYTES // 2) + b"\r\n\r\n")
        assert b" 431 " in await told(server, head(MAX_HEAD_BYTES + 1))
        before = sum(process.cpu_times()[:2])
        for _ in range(3):
            await told(server, head(40_000_000))
        assert sum(process.cpu_times()[:2]) - before < 2
        chunks = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert b" 431 " in await told(server, chunks + b"2\r\n{}\r\n0\r\nX: " + b"x" * 1_000_000)


async def test_white_space_around_a_header_s_value_is_no_part_of_it(tmp_path: Path) -> None:
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "add_messages",
                "arguments": {"messages": [{"role": "user", "content": "hello"}], "ids": True},
                "_meta": LISTEN["params"]["_meta"],
            },
        }
    )
    headers = {
        "Host": "127.0.0.1",
        "Connection": "close",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "add_messages",
        "Layerlore-Thread": "main",
        "Content-Length": str(len(body)),
    }
    async with served(tmp_path) as server:
        for before, after in (("", ""), (" ", " "), ("\t ", " \t\t")):
            head = "".join(f"{name}:{before}{value}{after}\r\n" for name, value in headers.items())
            answer = await told(server, f"POST /mcp HTTP/1.1\r\n{head}\r\n{body}".encode())
            assert b"HTTP/1.1 200 " in answer, answer
            assert b'"thread_id":"main"' in answer, answer


async def test_clients_that_leave_in_the_middle_of_a_body_are_forgotten(tmp_path: Path) -> None:
    data = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"
    async with served(tmp_path) as server:
        for _ in range(50):
            await told(server, data, leave=True)
            await told(server, data.replace(b"/mcp", b"/messages/?session_id=" + b"0" * 32), leave=True)
