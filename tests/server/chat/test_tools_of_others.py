"""Tools of other MCP servers, from a host's configuration file: two at a time, and with a person's approval."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_openai import Asks, FakeOpenAI

from layerlore.server.chat.tools import Tool, ToolResult, read_servers, tools_of_hosts
from layerlore.server.chat.turn_run import decide, list_open_runs, waiting_calls

from .conftest import OpenAgent
from .talking import ANY_OBJECT, stored

pytestmark = pytest.mark.anyio


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    return tmp_path / "letters"


@pytest.fixture
def hosts_file(tmp_path: Path, letters: Path) -> Path:
    """The file in which a host keeps its servers."""
    command = {"command": sys.executable, "args": [str(Path(__file__).with_name("tool_server.py"))]}
    file = tmp_path / "hosts.json"
    file.write_text(
        json.dumps({"mcpServers": {"post": {**command, "env": {"LETTERS": str(letters)}}}}), encoding="utf-8"
    )
    return file


async def test_two_calls_run_at_a_time_and_those_that_write_wait_for_a_person_whoever_runs_the_run_then(
    open_agent: OpenAgent, provider: FakeOpenAI, hosts_file: Path, letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-process")
    async with contextlib.AsyncExitStack() as stack:
        tools = await tools_of_hosts(stack, hosts_file)
        assert {tool.name: tool.asks for tool in tools} == {"post_look": False, "post_send": True, "post_meet": False}
        provider.replies.append(Asks([("post_meet", {})] * 4))
        provider.replies.append("We met.")
        three = [("post_look", {"place": "attic"}), ("post_send", {"to": "Ana"}), ("post_send", {"to": "Bo"})]
        provider.replies.append(Asks(three))
        provider.replies.append("One is on its way.")
        async with open_agent(*tools) as first:
            await first.generate("Meet.")
            assert [text for role, text in await stored(first) if role == "tool"] == ["at most 2"] * 4
            turn = await first.generate("Look into the attic, and write to Ana and Bo.")
            assert (turn.status, [call.arguments for call in turn.waiting]) == (
                "suspended",
                ['{"to": "Ana"}', '{"to": "Bo"}'],
            )
            assert (await stored(first))[-1] == ("tool", "nothing in the attic")
        async with open_agent(*tools) as second:
            (run,) = await list_open_runs(second.memory)
            assert (run["run_id"], run["status"]) == (turn.run_id, "suspended")
            ana, bo = await waiting_calls(second.memory, turn.run_id)
            await decide(second.memory, turn.run_id, ana, approved=True)
            await decide(second.memory, turn.run_id, bo, approved=False, reason="He moved.")
            assert await waiting_calls(second.memory, turn.run_id) == []
            assert not letters.exists()
            turn = await second.resume(turn.run_id)
            assert (turn.status, turn.text) == ("completed", "One is on its way.")
            results = [text for role, text in await stored(second) if role == "tool"][-3:]
            assert sorted(results) == ["The user denied this call. He moved.", "nothing in the attic", "sent to Ana"]
            assert letters.read_text(encoding="utf-8") == "Ana\n"
            assert await list_open_runs(second.memory) == []


async def test_a_call_that_waited_gets_its_arguments_unmasked_and_a_long_result_is_cut(
    open_agent: OpenAgent, provider: FakeOpenAI
) -> None:
    given: list[Any] = []

    async def log_in(arguments: Any) -> ToolResult:
        given.append(arguments)
        return ToolResult("x" * 400_000)

    login = Tool("log_in", "Logs in.", ANY_OBJECT, log_in, asks=True)
    secret = {"password": "correct-horse-7Kq2battery"}
    provider.replies.extend([Asks([("log_in", secret)]), "You are in."])
    async with open_agent(login) as first:
        turn = await first.generate("Log in.")
    async with open_agent(login) as second:
        (call,) = await waiting_calls(second.memory, turn.run_id)
        assert secret["password"] not in str(call.arguments)
        await decide(second.memory, turn.run_id, call, approved=True)
        assert (await second.resume(turn.run_id)).text == "You are in."
        assert given == [secret]
        result = (await stored(second))[-2][1]
        assert result.endswith("[cut here: 360,000 more characters]")
        assert secret["password"] not in str(await stored(second))


@pytest.mark.parametrize("text", ["", "[]", '{"mcpServers": [1]}', '{"mcpServers": {"post": {}}}'])
def test_a_file_that_is_no_hosts_is_refused_with_what_it_should_be(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hosts.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"must be JSON such as .*mcpServers"):
        read_servers(file)
