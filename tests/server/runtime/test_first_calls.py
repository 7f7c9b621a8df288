"""The first calls of a process: answered right however early they come, and not held up by what comes later."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from launch_environment import own_environment
from mcp import Client

from layerlore.server.runtime import runtime
from layerlore.server.runtime.runtime import Runtime
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings
from layerlore.server.tools import toolsets
from layerlore.server.tools.declaration import Call, tool

from ..command_line.test_command_line import loaded_by
from ..conftest import INITIALIZE, Lines

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

HELLO = [{"role": "user", "content": "the ferry leaves at nine"}]
PATIENCE = 120.0

FIRST_CALL = """
import anyio
from mcp import Client
from layerlore.server.runtime import runtime
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

async def main():
    runtime.LOAD_AFTER_SECONDS = 3600
    async with Client(build_server(load_settings({"database": "sqlite://:memory:"}, environ={}))) as client:
        await client.call_tool("add_messages", {"messages": [{"role": "user", "content": "hello"}]})

anyio.run(main)
"""


def test_a_first_add_loads_no_model_no_template_no_other_database_and_no_background_work() -> None:
    loaded = loaded_by(FIRST_CALL)
    assert "sqlalchemy" in loaded
    assert not loaded & {"litellm", "jinja2", "asyncpg", "onnxruntime"}
    assert not [name for name in loaded if name.startswith("layerlore.extraction")]


async def launched(folder: Path, *options: str, **variables: str) -> Lines:
    kept = own_environment()
    process = await anyio.open_process(
        [sys.executable, "-m", "layerlore", *options],
        env=kept | {"LAYERLORE_DATA_DIR": str(folder), **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
    )
    return Lines(process)


def call(id_: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


async def answers(lines: Lines, request: list[dict[str, Any]]) -> dict[str, Any]:
    """Send everything in one write, before anything can have been loaded. Returns the answers by their ids."""
    first = {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": INITIALIZE}
    begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert lines.process.stdout is not None
    await lines.send("\n".join(json.dumps(message) for message in (first, begun, *request)).encode())
    found: dict[str, Any] = {}
    data = b""
    with anyio.fail_after(PATIENCE):
        while len(found) < 1 + len(request):
            data += await lines.process.stdout.receive()
            *whole, data = data.split(b"\n")
            found |= {message["id"]: message for message in map(json.loads, whole) if "id" in message}
    return found


async def end(lines: Lines) -> None:
    assert lines.process.stdin is not None
    await lines.process.stdin.aclose()
    with anyio.fail_after(PATIENCE):
        assert await lines.process.wait() == 0


async def test_calls_of_every_kind_that_come_before_anything_is_loaded_are_answered(tmp_path: Path) -> None:
    async with (await launched(tmp_path, "--toolsets", "all", "--thread", "main")).process as process:
        lines = Lines(process)
        found = await answers(
            lines,
            [
                call("add", "add_messages", messages=HELLO),
                call("read", "list_threads"),
                call("status", "memory_status"),
                call("context", "get_context"),
                call("memory", "get_working_memory"),
                call("recall", "recall_memory", query="when does the ferry leave?"),
                {"jsonrpc": "2.0", "id": "prompts", "method": "prompts/get", "params": {"name": "review_memory"}},
                call("runs", "list_runs"),
                call("long", "add_messages", messages=[{"role": "user", "content": "nine o'clock " * 2000}]),
            ],
        )
        failed = {id_: reply for id_, reply in found.items() if "error" in reply or reply["result"].get("isError")}
        assert failed == {}
        assert found["add"]["result"]["structuredContent"]["stored"] == 1
        await end(lines)


async def test_processes_that_start_together_on_a_new_memory_all_answer(tmp_path: Path) -> None:
    seqs: list[int] = []

    async def one() -> None:
        lines = await launched(tmp_path, LAYERLORE_EMBEDDING__EMBEDDER="none")
        async with lines.process:
            found = await answers(lines, [call("add", "add_messages", thread_id="shared", messages=HELLO)])
            seqs.append(int(found["add"]["result"]["structuredContent"]["seqs"]))
            await end(lines)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(one)
    assert sorted(seqs) == [1, 2, 3]


async def test_what_is_done_beside_the_calls_begins_when_the_first_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happened: list[str] = []
    request, may_answer, begun = anyio.Event(), anyio.Event(), anyio.Event()

    @tool("Slow", "core", "read")
    async def slow(call: Call) -> str:
        """A tool that takes its time."""
        request.set()
        await may_answer.wait()
        happened.append("answered")
        return "done"

    async def keep_up(_: Runtime) -> None:
        happened.append("began")
        begun.set()

    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 0)
    monkeypatch.setattr(toolsets, "DECLARATIONS", (*toolsets.DECLARATIONS, slow))
    monkeypatch.setattr("layerlore.server.runtime.upkeep.keep_up", keep_up)
    async with (
        Client(build_server(load_settings({"database": "sqlite://:memory:"}, environ={}))) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(client.call_tool, "slow", {})
        with anyio.fail_after(PATIENCE):
            await request.wait()
        await anyio.wait_all_tasks_blocked()
        assert happened == []
        may_answer.set()
        with anyio.fail_after(PATIENCE):
            await begun.wait()
    assert happened == ["answered", "began"]
