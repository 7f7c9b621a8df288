"""Callers are held to their rates, and what is too much is refused with the time to wait, in both protocol eras."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from layerlore.server.limits.room import TOO_MUCH
from layerlore.server.limits.throttle import MOST_WAITING, Throttle, count_bytes, count_rows
from layerlore.server.process.sdk_private import add_middleware
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.http import RateSettings

from ..gated_server import PATIENCE, answer, refused, settings_in
from ..limited_server import Callers, Held, Stopped, limited_in_memory, only

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
HELLO = {"role": "user", "content": "hello"}


class Limited:
    """A client in memory, who it is, and the clock of the limits."""

    def __init__(self, client: Client, callers: Callers, clock: Stopped) -> None:
        self.client, self.callers, self.clock = client, callers, clock

    async def status(self) -> Any:
        return await answer(self.client, "memory_status")

    async def refused(self, tool: str = "memory_status", **arguments: Any) -> str:
        return await refused(self.client, tool, **arguments)


@contextlib.asynccontextmanager
async def limited_by(
    folder: Path, mode: str, rates: RateSettings, *behind: Any, settled: bool = True
) -> AsyncIterator[Limited]:
    callers, clock = Callers(), Stopped()
    callers.become(name="local")  # connecting counts as well, and is not what is tested
    server = limited_in_memory(settings_in(folder), rates, callers, clock, *behind)
    async with Client(server, mode=mode) as client:
        if settled:
            await client.list_tools()  # which a client reads before its first call
        callers.become()
        yield Limited(client, callers, clock)


@ERAS
async def test_a_call_too_many_is_refused_with_the_time_to_wait(tmp_path: Path, mode: str) -> None:
    async with limited_by(tmp_path, mode, only(principal_calls_per_second=2)) as limited:
        for _ in range(4):
            await limited.status()
        result = await limited.client.call_tool("memory_status", {})
        assert result.is_error
        assert result.structured_content is None
        (content,) = result.content
        assert content.text == "too many calls: 2 a second are allowed; try again in 0.5 s"  # type: ignore[union-attr]
        assert (result.meta or {})["layerlore/retry_after_seconds"] == 0.5
        limited.clock.now += 0.5
        await limited.status()
        assert "try again in 0.5 s" in await limited.refused()


@ERAS
async def test_what_is_no_tool_is_refused_with_an_error_of_the_protocol(tmp_path: Path, mode: str) -> None:
    async with limited_by(tmp_path, mode, only(principal_calls_per_second=1)) as limited:
        for _ in range(2):
            await limited.status()
        client = limited.client
        asking: list[Any] = [
            lambda: client.read_resource("memory://status"),
            lambda: client.get_prompt("review-memory"),
        ]
        for ask in asking:
            with pytest.raises(MCPError) as caught:
                await ask()
            assert caught.value.error.code == TOO_MUCH
            assert caught.value.error.message == "too many calls: 1 a second are allowed; try again in 1.0 s"
            assert caught.value.error.data == {"retry_after_seconds": 1.0}
        limited.clock.now += 1
        await client.read_resource("memory://status")


@ERAS
async def test_who_may_not_call_now_may_still_connect_and_list(tmp_path: Path, mode: str) -> None:
    callers = Callers()
    server = limited_in_memory(settings_in(tmp_path), only(principal_calls_per_second=10), callers, Stopped())
    async with Client(server, mode=mode) as first:
        while not (await first.call_tool("memory_status", {})).is_error:
            pass
        async with Client(server, mode=mode) as second:
            assert await second.list_tools()
            assert await second.list_prompts()
            assert await second.list_resource_templates()
            assert "too many calls: 10 a second" in await refused(second, "memory_status")


@ERAS
async def test_lists_have_an_amount_of_their_own_and_leave_that_of_calls_alone(tmp_path: Path, mode: str) -> None:
    async with limited_by(tmp_path, mode, only(principal_calls_per_second=1)) as limited:
        for _ in range(4):
            await limited.client.list_resources()
        with pytest.raises(MCPError, match=r"too many requests: 2 a second are allowed; try again in 0\.5 s") as caught:
            await limited.client.list_resources()
        assert caught.value.error.code == TOO_MUCH
        assert caught.value.error.data == {"retry_after_seconds": 0.5}
        await limited.status()


async def test_lists_wait_for_no_turn_of_the_calls_that_run(tmp_path: Path) -> None:
    held = Held("list_threads")
    async with (
        limited_by(tmp_path, "auto", only(tenant_calls_at_once=1), held) as limited,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(answer, limited.client, "list_threads")
        await held.until_begun(1)
        await limited.client.list_resources()
        held.let_go.set()


async def test_a_ping_is_never_refused(tmp_path: Path) -> None:
    async with limited_by(tmp_path, "legacy", only(principal_calls_per_second=1)) as limited:
        for _ in range(2):
            await limited.status()
        await limited.refused()
        await limited.client.send_ping()


async def test_what_cannot_be_refused_counts_all_the_same(tmp_path: Path) -> None:
    async with limited_by(tmp_path, "legacy", only(principal_calls_per_second=10)) as limited:
        for _ in range(100):
            await limited.client.send_ping()
        with pytest.raises(MCPError, match=r"too many requests: 20 a second are allowed; try again in 2\.0 s"):
            await limited.client.list_prompts()
        limited.clock.now += 2.5
        for _ in range(30):
            await limited.client.send_roots_list_changed()
        with anyio.fail_after(PATIENCE), pytest.raises(MCPError, match="too many requests"):
            await list_on(limited.client)


async def list_on(client: Client) -> None:
    while True:
        await client.list_prompts()


async def test_a_call_is_refused_before_its_arguments_are_looked_at(tmp_path: Path) -> None:
    async with limited_by(tmp_path, "auto", only(principal_calls_per_second=1)) as limited:
        for _ in range(2):
            assert "no argument" in await limited.refused(wrong=1)
        assert "too many calls" in await limited.refused(wrong=1)
        assert "too many calls" in await limited.refused("no_such_tool")


@ERAS
async def test_the_person_at_this_machine_is_not_limited(tmp_path: Path, mode: str) -> None:
    rates = only(principal_calls_per_second=1, tenant_calls_per_second=1, principal_rows_per_second=1)
    async with limited_by(tmp_path, mode, rates) as limited:
        limited.callers.become(name="local")
        for _ in range(10):
            await limited.status()


async def test_a_limit_of_zero_is_none(tmp_path: Path) -> None:
    async with limited_by(tmp_path, "auto", only()) as limited:
        for _ in range(10):
            await answer(limited.client, "add_messages", thread_id="t", messages=[HELLO] * 50)


async def test_each_principal_has_its_own_and_all_of_a_tenant_share_one_more(tmp_path: Path) -> None:
    rates = only(principal_calls_per_second=2, tenant_calls_per_second=3)
    async with limited_by(tmp_path, "auto", rates) as limited:
        for _ in range(4):
            await limited.status()
        assert "too many calls: 2 a second" in await limited.refused()
        limited.callers.become(name="key:ben")
        for _ in range(2):
            await limited.status()
        assert "too many calls of your tenant together: 3 a second are allowed" in await limited.refused()
        limited.callers.become(name="key:eve", tenant="globex")
        for _ in range(4):
            await limited.status()


@pytest.mark.parametrize("whose", ["principal", "tenant"])
async def test_rows_are_counted_from_what_a_call_adds(tmp_path: Path, whose: str) -> None:
    async with limited_by(tmp_path, "auto", only(**{f"{whose}_rows_per_second": 10})) as limited:
        client = limited.client
        await answer(client, "add_messages", thread_id="t", messages=[HELLO] * 15)
        together = " of your tenant together" if whose == "tenant" else ""
        assert (
            await limited.refused("add_messages", thread_id="t", messages=[HELLO] * 6)
            == f"too many rows to write{together}: 10 a second are allowed; try again in 0.1 s"
        )
        assert (await answer(client, "get_messages", format="json", thread_id="t"))["total"] == 15
        await answer(client, "add_messages", thread_id="t", messages=json.dumps([HELLO] * 5))
        assert "too many rows" in await limited.refused("update_thread", thread_id="t", title="x")
        await limited.status()


async def test_a_call_of_more_rows_than_a_burst_is_possible_and_paid_for_afterwards(tmp_path: Path) -> None:
    async with limited_by(tmp_path, "auto", only(principal_rows_per_second=10)) as limited:
        await answer(limited.client, "add_messages", thread_id="t", messages=[HELLO] * 100)
        assert "try again in 8.1 s" in await limited.refused("update_thread", thread_id="t", title="x")
        limited.clock.now += 8.1
        await answer(limited.client, "update_thread", thread_id="t", title="x")


@pytest.mark.parametrize("whose", ["principal", "tenant"])
async def test_bytes_are_counted(tmp_path: Path, whose: str) -> None:
    async with limited_by(tmp_path, "auto", only(**{f"{whose}_bytes_per_second": 1000})) as limited:
        await answer(limited.client, "add_messages", thread_id="t", messages=[{**HELLO, "content": "x" * 5000}])
        assert "too many bytes" in await limited.refused()
        limited.clock.now += 6
        await limited.status()


async def test_a_call_that_is_a_little_too_early_waits_its_turn(tmp_path: Path) -> None:
    async with limited_by(tmp_path, "auto", only(principal_calls_per_second=20, wait_ms=100)) as limited:
        for _ in range(40):
            await limited.status()
        began = anyio.current_time()
        for _ in range(2):
            await limited.status()  # the limits' clock stands still: the second waits for two
        assert anyio.current_time() - began >= 0.15
        assert "try again in 0.2 s" in await limited.refused()


async def test_no_more_than_so_many_of_one_principal_wait(tmp_path: Path) -> None:
    held, refusals = Held("list_threads"), []
    async with limited_by(tmp_path, "auto", only(tenant_calls_at_once=1, wait_ms=30_000), held) as limited:

        async def call() -> None:
            result = await limited.client.call_tool("list_threads", {})
            refusals.extend([result] if result.is_error else [])

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for _ in range(1 + MOST_WAITING + 3):
                    tasks.start_soon(call)
                while len(refusals) < 3:
                    await anyio.sleep(0.005)
                held.let_go.set()
    assert len(refusals) == 3
    assert held.begun == 1 + MOST_WAITING


@ERAS
async def test_a_tenant_has_so_many_calls_at_once(tmp_path: Path, mode: str) -> None:
    held = Held("list_threads")
    async with limited_by(tmp_path, mode, only(tenant_calls_at_once=2), held) as limited:
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(answer, limited.client, "list_threads")
            await held.until_begun(2)
            limited.callers.become(name="key:ben")
            expected = "too many calls at once of your tenant together: 2 are allowed; try again in 0.1 s"
            assert await limited.refused() == expected
            limited.callers.become(name="key:eve", tenant="globex")
            await limited.status()
            held.let_go.set()
        limited.callers.become()
        await limited.status()


async def test_a_call_waits_until_one_of_those_at_once_has_ended(tmp_path: Path) -> None:
    held = Held("list_threads")
    async with limited_by(tmp_path, "auto", only(tenant_calls_at_once=1, wait_ms=30_000), held) as limited:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer, limited.client, "list_threads")
                await held.until_begun(1)
                tasks.start_soon(limited.status)
                await anyio.sleep(0.02)
                held.let_go.set()


async def test_a_cancelled_call_gives_its_turn_back(tmp_path: Path) -> None:
    held = Held("list_threads")
    async with limited_by(tmp_path, "legacy", only(tenant_calls_at_once=1), held) as limited:
        with anyio.move_on_after(0.2):
            await limited.client.call_tool("list_threads", {})
        assert held.begun == 1
        with anyio.fail_after(PATIENCE):
            while True:
                result = await limited.client.call_tool("memory_status", {})
                if not result.is_error:
                    break


async def test_nothing_is_kept_of_whose_calls_have_ended(tmp_path: Path) -> None:
    """Of each that comes, up to two others go that are idle: the accounts do not add up."""
    callers, clock, server = Callers(), Stopped(), build_server(settings_in(tmp_path))
    throttle = Throttle(only(principal_calls_per_second=9, tenant_calls_per_second=9), callers, (), clock=clock)
    add_middleware(server, throttle)
    async with Client(server) as client:
        for number in range(20):
            callers.become(name=f"key:{number}", tenant=f"tenant-{number}")
            await answer(client, "memory_status")
            clock.now += 10
    for accounts in (throttle._principals, throttle._tenants):
        assert len(accounts) <= 2


async def test_connecting_counts_too(tmp_path: Path) -> None:
    callers = Callers()
    server = limited_in_memory(settings_in(tmp_path), only(principal_calls_per_second=1), callers, Stopped())
    for _ in range(2):
        async with Client(server, mode="legacy"):
            pass
    with pytest.RaisesGroup(pytest.RaisesExc(MCPError, match="too many requests"), flatten_subgroups=True):
        async with Client(server, mode="legacy"):
            pass


@pytest.mark.parametrize(
    ("tool", "arguments", "rows"),
    [
        ("add_messages", {"messages": [HELLO] * 3}, 3),
        ("add_messages", {"messages": HELLO}, 1),
        ("add_messages", {"messages": json.dumps([HELLO] * 7)}, 7),
        ("add_messages", {"messages": json.dumps([{"role": "user", "content": '{"role": "x"}'}])}, 1),
        ("add_messages", {"messages": None}, 1),
        ("add_messages", {}, 1),
        ("add_messages", None, 1),
        ("add_messages", [1, 2], 1),
        ("record_steps", {"steps": [{"type": "text"}] * 4}, 4),
        ("plan", {"action": "create", "plan": {"goal": "g", "steps": [{"description": "d"}] * 5}}, 6),
        ("plan", {"action": "create", "plan": json.dumps({"goal": "g", "steps": [{"description": "d"}] * 5})}, 6),
        ("plan", {"action": "update", "plan": {"iteration": 2}}, 1),
        ("plan", {"action": "review"}, 0),
        ("remember", {"content": "x"}, 1),
    ],
)
def test_rows_of_a_call(tool: str, arguments: Any, rows: int) -> None:
    assert count_rows(tool, arguments) == rows


class _Request:
    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def test_bytes_are_those_that_http_tells_or_else_the_parameters() -> None:
    params = {"name": "x", "arguments": {"a": "é\ud800"}}
    assert count_bytes(params, _Request(content_length="1234")) == 1234
    sent = len(json.dumps(params))
    assert [count_bytes(params, request) for request in (_Request(), _Request(content_length="-5"), None)] == [sent] * 3
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert count_bytes({"arguments": deep}, None) == 0
    assert count_bytes({"arguments": 10**5000}, None) == 0
