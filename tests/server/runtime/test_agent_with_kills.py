"""An agent whose server is killed twice in the middle of a call finds everything as it was acknowledged."""

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from launch_environment import own_environment
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from .scripted_agent import TASK, THREAD, TURNS, Book, Call, script

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

PATIENCE = 60.0
# The turn, and the call of it during which the server is killed.
KILLS = ((9, "update_working_memory"), (21, "suspend_run"))


class Server:
    """A server process on the agent's store, and a client of it."""

    def __init__(self, client: Client, child: psutil.Process) -> None:
        self._client = client
        self._child = child

    async def call(self, tool: str, key: str = "", /, **arguments: Any) -> Any:
        meta: Any = {"layerlore/idempotency-key": key} if key else None
        with anyio.fail_after(PATIENCE):
            result = await self._client.call_tool(tool, arguments, meta=meta)
        (content,) = result.content
        assert isinstance(content, TextContent)
        assert not result.is_error, content.text
        return content.text if result.structured_content is None else result.structured_content

    async def killed_during(self, call: Call) -> None:
        """Send a call, and kill -9 the server while it is under way: nobody knows how far it came."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._lost, call)
            await anyio.wait_all_tasks_blocked()
            os.kill(self._child.pid, signal.SIGKILL)
            with anyio.fail_after(PATIENCE):
                with contextlib.suppress(ChildProcessError):  # the client has collected it already
                    await anyio.to_thread.run_sync(os.waitid, os.P_PID, self._child.pid, os.WEXITED | os.WNOWAIT)
            tasks.cancel_scope.cancel()

    async def _lost(self, call: Call) -> None:
        with contextlib.suppress(Exception):  # whatever the transport makes of a server that is gone
            await self.call(call.tool, call.key, **call.arguments)


@contextlib.asynccontextmanager
async def server(folder: Path, mode: Any) -> AsyncIterator[Server]:
    kept = own_environment()
    quick = {"LAYERLORE_EMBEDDING__EMBEDDER": "none"}
    flags = ["--data-dir", str(folder / "data"), "--toolsets", "all"]
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "layerlore.server", *flags], env=kept | quick
    )
    before = {child.pid for child in psutil.Process().children()}
    with (folder / "log").open("a", encoding="utf-8") as log:
        async with Client(stdio_client(parameters, errlog=log), mode=mode) as client:
            yield Server(client, next(each for each in psutil.Process().children() if each.pid not in before))


async def play(folder: Path, mode: Any) -> Book:
    """All turns. After a kill the next server gets the call again whose answer was lost, under the same key."""
    book, kills = Book(), list(KILLS)
    turns = iter(range(1, TURNS + 1))
    waiting: list[Call] = []
    turn = 0
    while turn < TURNS or waiting:
        async with server(folder, mode) as running:
            while turn < TURNS or waiting:
                if not waiting:
                    turn = next(turns)
                    waiting = script(turn, book)
                if kills and kills[0] == (turn, waiting[0].tool):
                    kills.pop(0)
                    await running.killed_during(waiting[0])
                    break
                call = waiting.pop(0)
                book.enter(call, await running.call(call.tool, call.key, **call.arguments))
    assert kills == []
    return book


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.soak)])
async def test_an_agent_of_thirty_turns_and_two_kills_finds_all_as_it_was_acknowledged(
    tmp_path: Path, mode: Any
) -> None:
    book = await play(tmp_path, mode)
    async with server(tmp_path, mode) as running:
        page = await running.call("get_messages", format="json", thread_id=THREAD, limit=200)
        assert [(each["id"], each["parts"][0]["text"]) for each in page["messages"]] == book.messages
        assert [each["seq"] for each in page["messages"]] == list(range(1, 2 * TURNS + 1))
        plan = (await running.call("plan", action="review", thread_id=THREAD, format="json"))["plan"]
        assert plan["goal"] == "sail around the world"
        assert [(step["status"], step.get("result")) for step in plan["steps"]] == book.steps_of_plan
        memory = await running.call("get_working_memory", thread_id=THREAD)
        assert "\n".join(book.memory) in memory
        assert memory.count("- note") == TURNS
        profile = await running.call("get_working_memory", scope="resource")
        assert "\n".join(book.profile) in profile
        briefing = await running.call("get_briefing", task="go on", task_key=TASK, thread_id=THREAD)
        assert [line for line in briefing.splitlines() if line.startswith("Attempt ")] == book.attempts
        await check_log(running, book)
        await check_run(running, book)


async def check_run(running: Server, book: Book) -> None:
    (run,) = (await running.call("list_runs"))["runs"]
    assert (run["run_id"], run["status"]) == ("r1", "suspended")
    resumed = await running.call("resume_run", run_id="r1", tool_call_id="c1", data={"approved": False})
    assert resumed["state"] == book.run_state
    done = await running.call("complete_run", run_id="r1", claim=resumed["claim"], status="cancelled")
    assert done["status"] == "cancelled"


async def check_log(running: Server, book: Book) -> None:
    """Each acknowledged write is in the log once, in order, and no seq is missing."""
    recorded: list[Any] = []
    cursor = ""
    while True:
        steps = await running.call("list_steps", thread_id=THREAD, limit=50, cursor=cursor)
        recorded += steps["steps"]
        cursor = steps.get("next_cursor", "")
        if not cursor:
            break
    said = [(operation, type_) for operation, type_ in book.steps if not type_.startswith("Turn")]
    assert [(step["operation_id"], step["type"]) for step in recorded] == said
    events: list[Any] = []
    more, after = True, 0
    while more:
        listed = await running.call("list_events", thread_id=THREAD, after=after, limit=100)
        events += listed["events"]
        more, after = listed["more"], listed["next"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    turn_events = [type_ for _, type_ in book.steps if type_.startswith("Turn")]
    assert [event["type"] for event in events if event["type"].startswith("Turn")] == turn_events
    writers = [tool for tool, _ in itertools.groupby(event["tool"] for event in events)]
    assert writers == [tool for tool, _ in itertools.groupby(book.tools)]
