"""A server runs so many calls at a time: a burst waits, and where a queue stands, what cannot run soon is refused."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from layerlore.server.limits import room
from layerlore.server.limits.room import TOO_MUCH, Turns
from layerlore.server.process.sdk_private import add_middleware
from layerlore.server.runtime.tool_server import build_server

from ..gated_server import PATIENCE, answer, answer_when_free, refused, settings_in
from ..limited_server import Held, Stopped, only

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
REFUSED = "too many calls of all callers at once: 1 run at the same time; try again in 1.0 s"


class Busy:
    """A client of a server with one turn, which a call of list_threads has until it is let go."""

    def __init__(self, client: Client, held: Held, clock: Stopped, middleware: Turns) -> None:
        self.client, self.held, self.clock, self.turns = client, held, clock, middleware

    async def until_waiting(self, count: int) -> None:
        with anyio.fail_after(PATIENCE):
            while self.turns._waiting < count:
                await anyio.sleep(0.005)


@contextlib.asynccontextmanager
async def busy_server(folder: Path, mode: Any = "auto", **rates: Any) -> AsyncIterator[Busy]:
    held, clock, server = Held("list_threads"), Stopped(), build_server(settings_in(folder))
    middleware = Turns(only(calls_at_once=1, **rates), clock)
    for each in (middleware, held):
        add_middleware(server, each)
    async with Client(server, mode=mode) as client:
        await client.list_tools()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, client, "list_threads")
            await held.until_begun(1)
            yield Busy(client, held, clock, middleware)
            held.let_go.set()


@ERAS
async def test_a_call_that_gets_no_turn_in_time_is_refused_with_the_time_to_wait(tmp_path: Path, mode: str) -> None:
    async with busy_server(tmp_path, mode) as busy:
        result = await busy.client.call_tool("memory_status", {})
        assert result.is_error
        assert result.content[0].text == REFUSED  # type: ignore[union-attr]
        assert (result.meta or {})["layerlore/retry_after_seconds"] == 1.0
        with pytest.raises(MCPError, match="of all callers at once") as caught:
            await busy.client.read_resource("memory://status")
        assert caught.value.error.code == TOO_MUCH
        assert caught.value.error.data == {"retry_after_seconds": 1.0}
        assert await busy.client.list_tools()
        busy.held.let_go.set()
        await answer_when_free(busy.client, "memory_status")


async def test_a_call_of_a_burst_waits_until_another_has_ended(tmp_path: Path) -> None:
    async with busy_server(tmp_path, wait_ms=30_000) as busy, anyio.create_task_group() as tasks:
        for number in range(1, 4):
            tasks.start_soon(answer, busy.client, "memory_status")
            await busy.until_waiting(number)
        busy.held.let_go.set()


async def test_in_a_queue_that_stands_a_call_waits_only_shortly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "STANDING_SECONDS", 0.0)
    async with busy_server(tmp_path, wait_ms=30_000) as busy, anyio.create_task_group() as tasks:
        tasks.start_soon(answer, busy.client, "memory_status")
        await busy.until_waiting(1)
        busy.clock.now += 30
        assert await refused(busy.client, "memory_status") == REFUSED
        # Once the queue was empty, the next burst waits again.
        busy.held.let_go.set()
        await answer_when_free(busy.client, "memory_status")
        busy.held.let_go = anyio.Event()
        tasks.start_soon(answer, busy.client, "list_threads")
        await busy.held.until_begun(2)
        tasks.start_soon(answer, busy.client, "memory_status")
        await busy.until_waiting(1)
        busy.held.let_go.set()


async def test_a_cancelled_call_gives_its_turn_back(tmp_path: Path) -> None:
    held, server = Held("list_threads"), build_server(settings_in(tmp_path))
    for each in (Turns(only(calls_at_once=1)), held):
        add_middleware(server, each)
    async with Client(server, mode="legacy") as client:
        with anyio.move_on_after(0.2):
            await client.call_tool("list_threads", {})
        assert held.begun == 1
        await answer_when_free(client, "memory_status")


async def test_without_the_limit_any_number_of_calls_runs(tmp_path: Path) -> None:
    held, server = Held("list_threads"), build_server(settings_in(tmp_path))
    for each in (Turns(only(calls_at_once=0)), held):
        add_middleware(server, each)
    async with Client(server) as client, anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(answer, client, "list_threads")
        await held.until_begun(100)
        held.let_go.set()
