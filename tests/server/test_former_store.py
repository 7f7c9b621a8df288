"""What was kept in the default folder under the product's former name is found there once, and moved."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launch_environment import own_environment
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from layerlore.server.runtime.server_builder import build_server
from layerlore.server.settings.former_store import FORMER_NAME
from layerlore.server.settings.settings import load_settings
from layerlore.storage.drivers.sqlite import driver

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.programs,
    pytest.mark.skipif(sys.platform != "linux", reason="XDG_DATA_HOME names the folder of data on Linux"),
]

SAID = [{"role": "user", "content": "The ferry leaves at nine."}]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of all programs' data."""
    return tmp_path / "share"


def launched(home: Path, *flags: str) -> StdioServerParameters:
    kept = own_environment()
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "layerlore.server", "--thread", "main", *flags],
        env=kept | {"XDG_DATA_HOME": str(home), "LAYERLORE_EMBEDDING__EMBEDDER": "none"},
    )


async def called(home: Path, tool: str, arguments: dict[str, Any], *flags: str) -> tuple[Any, str]:
    """A tool's answer from a server of its own, and what that server wrote on standard error."""
    said = home.parent / "stderr"
    with said.open("w") as stderr:
        async with Client(stdio_client(launched(home, *flags), errlog=stderr)) as client:
            answer = await client.call_tool(tool, arguments)
            assert not answer.is_error, answer.content
    return answer.structured_content, said.read_text()


async def make_former_store(home: Path) -> Path:
    folder = home / FORMER_NAME
    settings = load_settings({"data_dir": str(folder), "thread": "main", "embedding": {"embedder": "none"}}, environ={})
    async with Client(build_server(settings)) as client:
        assert not (await client.call_tool("add_messages", {"messages": SAID})).is_error
    (folder / "http-key").write_text("ms_the_key_that_agents_of_this_machine_have\n")
    return folder


async def test_a_store_of_the_former_name_is_moved_once_and_said_so(home: Path) -> None:
    folder = await make_former_store(home)
    page, first = await called(home, "get_messages", {"format": "json"})
    assert [message["parts"][0]["text"] for message in page["messages"]] == [SAID[0]["content"]]
    assert "moved the memory" in first
    assert str(folder / "memory.db") in first
    assert str(home / "layerlore" / "memory.db") in first
    assert list(folder.iterdir()) == []
    assert (home / "layerlore" / "http-key").read_text().startswith("ms_the_key")
    page, second = await called(home, "get_messages", {"format": "json"})
    assert len(page["messages"]) == 1
    assert second == ""


async def test_a_folder_that_was_chosen_is_not_filled_from_the_former_one(home: Path) -> None:
    folder = await make_former_store(home)
    status, said = await called(home, "memory_status", {}, "--data-dir", str(home / "chosen"))
    assert "ferry" not in json.dumps(status)
    assert said == ""
    assert (folder / "memory.db").exists()


async def test_a_store_that_is_there_already_is_not_replaced(home: Path) -> None:
    await called(home, "add_messages", {"messages": [{"role": "user", "content": "It is new here."}]})
    folder = await make_former_store(home)
    page, said = await called(home, "get_messages", {"format": "json"})
    assert [message["parts"][0]["text"] for message in page["messages"]] == ["It is new here."]
    assert said == ""
    assert (folder / "memory.db").exists()


async def test_the_file_of_another_program_of_that_name_is_left_alone(home: Path) -> None:
    file = home / FORMER_NAME / "memory.db"
    file.parent.mkdir(parents=True)
    other = driver.connect(str(file), synchronous="OFF")
    other.execute("CREATE TABLE memories (text TEXT)")
    other.close()
    before = file.read_bytes()
    _, said = await called(home, "add_messages", {"messages": SAID})
    assert said == ""
    assert file.read_bytes() == before


async def test_a_store_that_a_server_still_uses_is_not_moved_and_the_error_says_so(home: Path) -> None:
    folder = await make_former_store(home)
    async with Client(stdio_client(launched(home, "--data-dir", str(folder)))) as client:
        await client.call_tool("memory_status", {})
        shown = subprocess.run(
            [sys.executable, "-m", "layerlore.server", "keys", "list"],
            env={**os.environ, "XDG_DATA_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert shown.returncode == 1
        assert "end the servers that use it" in shown.stderr
        assert "Traceback" not in shown.stderr
        assert not (home / "layerlore" / "memory.db").exists()
        assert not (await client.call_tool("get_messages", {"format": "json"})).is_error
    page, said = await called(home, "get_messages", {"format": "json"})
    assert len(page["messages"]) == 1
    assert "moved the memory" in said
