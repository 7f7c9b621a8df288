"""The Inspector's command line, as people try a server with it, over the three transports."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .conftest import Ended, RunNode
from .conversation import PROGRAM, memory

INSPECTOR = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
THREAD = "dinner-in-lisbon"
TOOL_FAILED = 5


@dataclass(frozen=True)
class Inspected:
    """A memory, as the Inspector is told to reach it."""

    run: Callable[..., Ended]

    def request(self, *arguments: str) -> Any:
        ended = self.run(*arguments)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)["result"]

    def called(self, tool: str, **given: Any) -> Any:
        answer = self.request(*_call(tool, given))
        assert not answer.get("isError")
        return answer["content"][0]["text"]


def _call(tool: str, given: dict[str, Any]) -> list[str]:
    return ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(given)]


@pytest.fixture(params=["stdio", "http", "http, modern", "sse"])
def inspected(request: pytest.FixtureRequest, run_node: RunNode, tmp_path: Path) -> Iterator[Inspected]:
    transport, _, era = request.param.partition(", ")
    with memory("on_stdio" if transport == "stdio" else "over_http", tmp_path) as empty:
        reached = [PROGRAM]
        if empty.url:
            url = empty.url.removesuffix("/mcp") + "/sse" if transport == "sse" else empty.url
            reached = [url, "--stored-auth-only", "--header", f"Authorization: Bearer {empty.key}"]
        options = ["--protocol-era", era or "legacy", "--connect-timeout", "60000", "--format", "json", "-q"]

        def run(*arguments: str) -> Ended:
            return run_node(INSPECTOR, "--cli", *reached, *options, *arguments)

        yield Inspected(run)


def test_what_one_command_adds_the_next_ones_find(inspected: Inspected) -> None:
    said = {"role": "user", "content": "I am Ana, and I never eat meat."}
    inspected.called("add_messages", thread_id=THREAD, messages=[said])
    assert said["content"] in inspected.called("recall_memory", query="What does Ana never eat?")
    messages = f"memory://threads/{THREAD}/messages"
    (read,) = inspected.request("--method", "resources/read", "--uri", messages)["contents"]
    assert [each["parts"][0]["text"] for each in json.loads(read["text"])["messages"]] == [said["content"]]


def test_tools_resources_and_prompts_are_listed(inspected: Inspected) -> None:
    tools = inspected.request("--method", "tools/list")["tools"]
    assert {"add_messages", "recall_memory", "get_context"} <= {tool["name"] for tool in tools}
    resources = inspected.request("--method", "resources/list")["resources"]
    assert {"memory://profile", "memory://threads"} <= {resource["uri"] for resource in resources}
    assert "load_memory" in {prompt["name"] for prompt in inspected.request("--method", "prompts/list")["prompts"]}


def test_a_call_that_is_refused_ends_the_command_with_the_reason(inspected: Inspected) -> None:
    ended = inspected.run(*_call("get_messages", {"thread_name": THREAD}))
    assert ended.returncode == TOOL_FAILED
    assert "get_messages has no argument 'thread_name'; did you mean 'thread_id'?" in ended.stdout + ended.stderr


def test_no_schema_of_any_tool_is_warned_of(run_node: RunNode, tmp_path: Path) -> None:
    with memory("on_stdio", tmp_path):
        ended = run_node(INSPECTOR, "--cli", PROGRAM, "--toolsets", "all", "--method", "tools/list", "--strict")
    assert ended.returncode == 0, ended.stderr
    assert "Warning" not in ended.stderr, ended.stderr
    assert len(json.loads(ended.stdout)["tools"]) > 20
