"""Changes between processes: servers on stdio and HTTP, their connections, and replicas; and their end while streams
are open. With the intervals that users have."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from launch_environment import own_environment
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

from ..conftest import Lines, _killed_at_the_end
from ..http.test_http_command import ServedClients, serving
from ..subscribing import MAIN, PATIENCE, Subscriber, subscriber

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

URI = MAIN["messages"]

MODERN = {
    PROTOCOL_VERSION_META_KEY: "2026-07-28",
    CLIENT_INFO_META_KEY: {"name": "test", "version": "1"},
    CLIENT_CAPABILITIES_META_KEY: {},
}


def environment() -> dict[str, str]:
    kept = own_environment()
    return kept | {"LAYERLORE_EMBEDDING__EMBEDDER": "none"}


def command(database_url: str) -> list[str]:
    return [sys.executable, "-m", "layerlore.server", "--database", database_url]


def on_stdio(database_url: str) -> Any:
    program, *args = command(database_url)
    return stdio_client(StdioServerParameters(command=program, args=args, env=environment()))


@contextlib.asynccontextmanager
async def on_http(served: ServedClients, endpoint: str) -> AsyncIterator[Any]:
    async with httpx2.AsyncClient(headers=served.headers, timeout=PATIENCE) as http:
        if endpoint == "sse":
            yield sse_client(served.url + "/sse", headers=served.headers)
        else:
            yield streamable_http_client(served.url + "/mcp", http_client=http)


async def all_are_told(watching: list[Subscriber], change: Subscriber, *, times: int) -> None:
    for _ in range(times):
        await change.say("main")
        for each in watching:
            assert await each.next() == URI


async def test_servers_on_stdio_tell_of_their_own_changes_and_of_each_others(database_url: str) -> None:
    async with (
        subscriber(on_stdio(database_url), "legacy", [URI]) as legacy,
        subscriber(on_stdio(database_url), "modern", [URI]) as modern,
    ):
        await all_are_told([legacy, modern], modern, times=1)
        await all_are_told([modern, legacy], legacy, times=1)
        assert (legacy.waiting, modern.waiting) == (0, 0)


async def test_every_connection_over_http_is_told_of_the_others_changes_and_of_another_process(
    database_url: str, tmp_path: Path
) -> None:
    with serving(tmp_path / "data", "--database", database_url) as served:
        async with contextlib.AsyncExitStack() as stack:
            watching = []
            for endpoint in ("mcp", "sse"):
                for era in ("legacy", "modern"):
                    transport = await stack.enter_async_context(on_http(served, endpoint))
                    watching.append(await stack.enter_async_context(subscriber(transport, era, [URI])))
            replica = build_server(
                load_settings({"database": database_url, "embedding": {"embedder": "none"}}, environ={})
            )
            other = await stack.enter_async_context(subscriber(replica, "modern"))
            await until_all_have_heard(watching)
            for by in (*watching, other):
                await all_are_told(watching, by, times=2 if by is other else 1)


async def until_all_have_heard(watching: list[Subscriber]) -> None:
    """The stream on which an older client hears over HTTP opens by itself, a little later."""
    with anyio.fail_after(PATIENCE):
        while not all(each.waiting for each in watching):
            await watching[0].say("main")
            await anyio.sleep(0.2)
    await anyio.sleep(1.2)  # what SQLite's poll may still find
    for each in watching:
        while each.waiting:
            await each.next()


@contextlib.asynccontextmanager
async def started(database_url: str, stderr_file: Path) -> AsyncIterator[Lines]:
    with stderr_file.open("wb") as stderr:
        process = await anyio.open_process(
            command(database_url), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment()
        )
    async with _killed_at_the_end(process):
        yield Lines(process)


async def test_a_server_on_stdio_ends_in_time_while_somebody_listens(database_url: str, tmp_path: Path) -> None:
    """With one database by a signal in the newer era, with the other by the end of its input in the older."""
    era = "modern" if database_url.startswith("sqlite") else "legacy"
    async with started(database_url, tmp_path / "stderr") as lines:
        if era == "legacy":
            await lines.initialize()
            await lines.request("resources/subscribe", {"uri": URI})
            assert "result" in await lines.receive()
        else:
            await lines.request(
                "subscriptions/listen", {"_meta": MODERN, "notifications": {"resourceSubscriptions": [URI]}}
            )
            assert (await lines.receive())["method"] == "notifications/subscriptions/acknowledged"
        if era == "modern":
            lines.process.send_signal(signal.SIGTERM)
        else:
            await lines.process.stdin.aclose()
        assert await lines.ended() == 0
    assert "Traceback" not in (tmp_path / "stderr").read_text()


async def test_a_server_over_http_ends_in_time_while_somebody_listens(database_url: str, tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--database", database_url) as served:
        with contextlib.suppress(BaseExceptionGroup):  # what becomes of the clients is their own business
            async with contextlib.AsyncExitStack() as stack:
                for endpoint, era in (("mcp", "legacy"), ("mcp", "modern"), ("sse", "modern")):
                    transport = await stack.enter_async_context(on_http(served, endpoint))
                    await stack.enter_async_context(subscriber(transport, era, [URI]))
                served.process.send_signal(signal.SIGTERM)
                code = await anyio.to_thread.run_sync(served.process.wait, PATIENCE)
        assert code == 0
