"""Hosts that launch layerlore share one server of their machine: each sees its own memory, and never that the server has
died."""

import json
import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from mcp import Client
from mcp.types import Implementation
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from layerlore.server.relay import conversation

from ..shared_machine import PATIENCE, Machine, wait_for_end

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


@pytest.fixture
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="layerlore-") as folder:  # its path is short enough for a socket's address
        machine = Machine(Path(folder) / "data")
        yield machine
        machine.stop()


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    with anyio.fail_after(PATIENCE):
        result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content if result.structured_content is not None else result.content[0].text  # type: ignore[union-attr]


async def add(client: Client, *texts: str, **arguments: Any) -> Any:
    return await call(
        client, "add_messages", ids=True, messages=[{"role": "user", "content": each} for each in texts], **arguments
    )


async def said(client: Client, **arguments: Any) -> list[str]:
    page = await call(client, "get_messages", format="json", **arguments)
    return [each["parts"][0]["text"] for each in page["messages"]]


async def test_hosts_of_one_machine_are_served_by_one_process(machine: Machine) -> None:
    async with machine.host() as first, machine.host(mode="auto") as second:
        await add(first, "The ferry leaves at nine.", thread_id="harbour")
        assert await said(second, thread_id="harbour") == ["The ferry leaves at nine."]
        (told,) = machine.servers()
        assert told["hosts"] == 2


@pytest.mark.parametrize("flags", [(), ("--alone",)])
async def test_calls_beyond_what_runs_at_the_same_time_are_refused_as_busy(
    machine: Machine, flags: tuple[str, ...]
) -> None:
    variables = {"LAYERLORE_RATES__CALLS_AT_ONCE": "1", "LAYERLORE_RATES__WAIT_MS": "0"}
    answers: list[str] = []
    async with machine.host(*flags, variables=variables) as host:

        async def recall() -> None:
            answers.append((await host.call_tool("recall_memory", {"query": "ferry"})).content[0].text)  # type: ignore[union-attr]

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(recall)
    busy = [each for each in answers if "1 run at the same time; try again in 1.0 s" in each]
    assert 0 < len(busy) < len(answers) == 50


async def test_each_host_has_its_own_agent_resource_thread_and_tools(machine: Machine) -> None:
    async with (
        machine.host("--agent", "cook", "--resource", "ana", "--thread", "kitchen") as cook,
        machine.host(variables={"LAYERLORE_AGENT": "guide", "LAYERLORE_RESOURCE": "ben"}) as guide,
        machine.host("--toolsets", "chat") as chat,
    ):
        await add(cook, "No nuts, please.")
        assert await said(cook, thread_id="kitchen") == ["No nuts, please."]
        scopes = [(await call(each, "memory_status"))["scope"] for each in (cook, guide)]
        assert scopes == [{"agent": "cook", "resource": "ana"}, {"agent": "guide", "resource": "ben"}]
        assert (await call(guide, "list_threads"))["threads"] == []
        names = [{tool.name for tool in (await each.list_tools()).tools} for each in (cook, chat)]
        assert "memory_status" in names[0] - names[1]
        assert len(machine.servers()) == 1


async def test_calls_that_name_no_thread_go_on_with_the_session_of_their_own_host(machine: Machine) -> None:
    async with machine.host() as first, machine.host() as second:
        mine = (await add(first, "one"))["thread_id"]
        assert (await add(second, "two"))["thread_id"] != mine
        await machine.kill()
        assert (await add(first, "three"))["thread_id"] == mine
        assert await said(first) == ["one", "three"]


@ERAS
async def test_a_host_notices_nothing_of_a_server_that_is_killed(machine: Machine, mode: str) -> None:
    async with machine.host(mode=mode) as client:
        for turn in range(4):
            await add(client, f"turn {turn}", thread_id="long")
            before = machine.server()
            await machine.kill()
            assert await said(client, thread_id="long") == [f"turn {number}" for number in range(turn + 1)]
            assert machine.server() != before


async def test_what_is_acknowledged_while_servers_are_killed_is_stored_once(
    machine: Machine, trials: Callable[..., range]
) -> None:
    kills = trials(6, soak=200)
    chance = random.Random(kills.start)
    acknowledged: list[str] = []
    under_way = True

    async def work(number: int) -> None:
        async with machine.host("--thread", f"worker {number}", mode="legacy" if number % 2 else "auto") as client:
            turn = 0
            while under_way:
                turn += 1
                await add(client, f"{number}-{turn}")
                acknowledged.append(f"{number}-{turn}")
            newest = [f"{number}-{each}" for each in range(1, turn + 1)][-200:]
            assert await said(client, limit=200) == newest

    async with anyio.create_task_group() as tasks:
        for number in range(4 if len(kills) < 50 else 8):
            tasks.start_soon(work, number)
        for _ in kills:
            target = len(acknowledged) + chance.randint(1, 12)
            with anyio.fail_after(PATIENCE):
                while len(acknowledged) < target:
                    await anyio.sleep(0.01)
            await machine.kill()
        under_way = False


async def test_news_goes_on_after_a_server_was_killed_and_tells_what_may_have_been_missed(machine: Machine) -> None:
    heard: list[str] = []
    news = anyio.Event()

    async def listen(message: Any) -> None:
        nonlocal news
        if type(message).__name__ == "ResourceUpdatedNotification":
            heard.append(str(message.params.uri))
            news.set()

    uri = "memory://profile"
    async with machine.host(message_handler=listen) as watching, machine.host() as writing:
        await watching.subscribe_resource(uri)
        await machine.kill()
        with anyio.fail_after(PATIENCE):
            await news.wait()
        news, heard = anyio.Event(), []
        await call(writing, "update_working_memory", content="Name: Ana", scope="resource")
        with anyio.fail_after(PATIENCE):
            await news.wait()
        assert heard[0] == uri


async def test_a_stopped_server_answers_what_is_under_way_and_hosts_go_on_with_the_next(machine: Machine) -> None:
    async with machine.host() as client:
        await add(client, "before", thread_id="t")
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(lambda n=number: add(client, f"during {n}", thread_id="t"))
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(machine.stop)
        assert len(await said(client, thread_id="t", limit=100)) == 21


async def test_a_server_without_hosts_ends_by_itself(machine: Machine) -> None:
    idle = {"LAYERLORE_LOCAL__IDLE_MINUTES": "0.01"}
    async with machine.host(variables=idle) as client:
        await add(client, "hello")
        process = psutil.Process(machine.server())
    await anyio.to_thread.run_sync(wait_for_end, process)
    assert machine.servers() == []
    assert not list((machine.folder / "local").glob("*.sock"))


async def test_other_settings_of_the_process_mean_another_server(machine: Machine) -> None:
    async with machine.host() as first, machine.host("--redaction", "off") as second:
        await add(first, "one")
        await add(second, "two")
        assert len(machine.servers()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")
async def test_nobody_else_can_reach_the_socket(machine: Machine) -> None:
    async with machine.host() as client:
        await add(client, "hello")
        (socket,) = (machine.folder / "local").glob("*.sock")
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(socket.parent.stat().st_mode) == stat.S_IMODE(machine.folder.stat().st_mode) == 0o700


async def test_where_no_socket_can_be_had_the_host_has_a_server_of_its_own(machine: Machine) -> None:
    machine.folder.mkdir()
    (machine.folder / "local").write_text("in the way")
    async with machine.host() as client:
        await add(client, "hello", thread_id="t")
        assert await said(client, thread_id="t") == ["hello"]
        assert (await call(client, "memory_status"))["server"]["shared"] is False


async def test_a_shared_server_that_cannot_start_leaves_the_host_its_own_reason(machine: Machine) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "layerlore", "--redaction", "some"],
        env=machine.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 2
    assert "redaction" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_a_setting_of_one_host_that_is_wrong_is_explained_to_it_alone(machine: Machine) -> None:
    async with machine.host() as client:
        await add(client, "hello", thread_id="t")
        ended = await anyio.run_process(
            [sys.executable, "-m", "layerlore", "--toolsets", "cure"], env=machine.environment(), check=False
        )
        assert ended.returncode == 2
        assert b"toolsets" in ended.stderr
        assert await said(client, thread_id="t") == ["hello"]


async def test_the_first_answers_of_a_cold_start_are_those_of_the_server_before(machine: Machine) -> None:
    async def look(client: Client) -> Any:
        return (await client.list_tools()).model_dump(), client.instructions

    async with machine.host() as client:
        first = await look(client)
    machine.stop()
    (kept,) = (machine.folder / "local").glob("*.answers")
    async with machine.host() as client:
        assert await look(client) == first
    machine.stop()
    stale = {
        key: value.replace("recall_memory", "recall_memory_of_old")
        for key, value in json.loads(kept.read_text()).items()
    }
    kept.write_text(json.dumps(stale))
    changed = anyio.Event()

    async def listen(message: Any) -> None:
        if type(message).__name__ == "ToolListChangedNotification":
            changed.set()

    async with machine.host(message_handler=listen) as client:
        assert "recall_memory_of_old" in {tool.name for tool in (await client.list_tools()).tools}
        with anyio.fail_after(PATIENCE):
            await changed.wait()
        assert (await look(client))[0] == first[0]


@ERAS
async def test_an_installation_stores_the_first_answers_for_any_client_and_project(
    machine: Machine, tmp_path: Path, mode: str
) -> None:
    environment = machine.environment(HOME=str(tmp_path))
    await anyio.run_process([sys.executable, "-m", "layerlore", "install", "cursor"], env=environment)
    machine.stop()
    (kept,) = (machine.folder / "local").glob("*.answers")
    # Only a stored answer has this name.
    kept.write_text(kept.read_text().replace("recall_memory", "recall_memory_of_old"))
    new = Implementation(name="never seen", version="1")
    async with machine.host("--project", "kitchen", mode=mode, client_info=new) as client:
        assert "recall_memory_of_old" in {tool.name for tool in (await client.list_tools()).tools}
        assert "recall_memory_of_old" in (client.instructions or "")


def test_answers_are_stored_for_each_version_of_the_protocol() -> None:
    assert (conversation.HANDSHAKES, conversation.PER_REQUEST) == (
        HANDSHAKE_PROTOCOL_VERSIONS,
        MODERN_PROTOCOL_VERSIONS,
    )


async def test_recall_from_the_command_line_asks_the_server_that_runs(machine: Machine) -> None:
    async def recall(*arguments: str) -> str:
        done = await anyio.run_process(
            [sys.executable, "-X", "importtime", "-m", "layerlore", "recall", *arguments], env=machine.environment()
        )
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
        assert "layerlore.server.relay.channels" in loaded
        return done.stdout.decode() + ("" if "pydantic" in loaded else "without a memory of its own")

    async with machine.host() as client:
        await add(client, "The ferry leaves at nine.", thread_id="harbour")
        shared = await recall("when does the ferry leave?", "--limit", "3")
        as_json = await recall("when does the ferry leave?", "--json")
    assert shared.endswith("without a memory of its own")
    machine.stop()
    assert await recall("when does the ferry leave?", "--limit", "3") + "without a memory of its own" == shared
    hits = json.loads(as_json.removesuffix("without a memory of its own"))["hits"]
    assert [hit["thread_id"] for hit in hits] == ["harbour"]


async def test_a_thin_client_loads_the_standard_library_alone(machine: Machine) -> None:
    relay = "layerlore.server.relay"
    modules = f"layerlore.server.__main__, {relay}.relay, {relay}.server_query, {relay}.hook_client"
    loaded = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    heavy = {"asyncio", "typing", "dataclasses", "pathlib", "subprocess", "logging", "hashlib", "mcp", "pydantic"}
    assert not heavy & set(loaded)


async def test_a_host_that_leaves_gets_the_answers_to_what_it_has_asked(machine: Machine) -> None:
    lines = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "add_messages", "arguments": {"messages": [{"role": "user", "content": "hello"}]}},
        },
    ]
    done = await anyio.run_process(
        [sys.executable, "-m", "layerlore"],
        input="".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines).encode(),
        env=machine.environment(),
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_thin_client_ends_at_once_when_told_to(machine: Machine, number: int) -> None:
    async with await anyio.open_process([sys.executable, "-m", "layerlore"], env=machine.environment()) as process:
        assert process.stdin
        assert process.stdout
        hello = {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        }
        await process.stdin.send(json.dumps({"jsonrpc": "2.0", **hello}).encode() + b"\n")
        with anyio.fail_after(PATIENCE):
            await process.stdout.receive()
            os.kill(process.pid, number)
            assert await process.wait() == 0


@pytest.mark.parametrize("answered", [True, False])
async def test_a_host_that_hangs_up_leaves_no_stack_trace_in_the_log(machine: Machine, answered: bool) -> None:
    for _ in range(3):
        async with machine.host() as client:
            if answered:
                await add(client, "The ferry leaves at nine.")
            # The host is to hang up after its greeting, not within a write.
            await anyio.wait_all_tasks_blocked()
            (told,) = machine.servers()
            for child in psutil.Process().children(recursive=True):
                if child.pid != told["pid"]:
                    child.kill()
    async with machine.host() as client:
        await add(client, "It sails on.")
    logs = [each.read_text() for each in machine.folder.glob("local/*.log")]
    assert not [each for each in logs if "Traceback" in each]
