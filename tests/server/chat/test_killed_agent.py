"""An agent that dies between any two calls: whoever takes its run over loses nothing and does nothing twice."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from fake_openai import Asks, FakeOpenAI
from mcp import Client

from layerlore.server.chat.agent import Agent
from layerlore.server.chat.memory import Memory
from layerlore.server.chat.tools import Tool, Toolbox, ToolResult
from layerlore.server.chat.turn_run import LEASE_SECONDS, can_go_on, list_open_runs

from .conftest import OpenAgent
from .talking import ANY_OBJECT, stored

pytestmark = pytest.mark.anyio

DONE, INTERRUPTED = "done", "It was interrupted, and nobody knows whether it was done: look before you call it again."


class Killed(BaseException):
    """The end of a process: nothing runs after it."""


class MortalClient:
    """A client whose process dies after so many calls, when the last one was done and not answered."""

    def __init__(self, client: Client, calls: int) -> None:
        self._client = client
        self._left = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def call_tool(self, tool: str, *arguments: Any, **options: Any) -> Any:
        if tool == "get_run":  # by who listens beside the turn
            return await self._client.call_tool(tool, *arguments, **options)
        if self._left <= 0:
            raise Killed
        self._left -= 1
        answer = await self._client.call_tool(tool, *arguments, **options)
        if self._left == 0:
            raise Killed
        return answer


async def test_a_turn_that_dies_after_any_of_its_calls_is_whole_once_another_agent_goes_on(
    open_agent: OpenAgent, provider: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, time_ns = 0, time.time_ns
    monkeypatch.setattr(
        "layerlore.server.runtime.engines.time", SimpleNamespace(time_ns=lambda: time_ns() + ahead * 10**9)
    )
    sent: list[str] = []

    async def send(arguments: Any) -> ToolResult:
        sent.append(arguments["to"])
        return ToolResult(DONE)

    def reply(request: Any) -> Any:
        knows = [message for message in request["messages"] if message["role"] == "tool"]
        return f"Sent {len(knows)}." if knows else Asks([("send", {"to": "Ana"}), ("send", {"to": "Bo"})])

    provider.reply = reply
    async with open_agent() as living:
        survived = False
        calls = 0
        while not survived:
            calls += 1
            sent.clear()
            mortal = Agent(
                Memory(MortalClient(living.memory.client, calls), f"after-{calls}"),  # type: ignore[arg-type]
                living.model,
                Toolbox([Tool("send", "Sends a letter.", ANY_OBJECT, send)]),
            )
            try:
                await mortal.generate("Write to Ana and Bo.")
                survived = True
            except* Killed:
                pass
            ahead += LEASE_SECONDS + 1
            heir = Agent(Memory(living.memory.client, f"after-{calls}"), living.model, mortal.tools)
            waiting = await list_open_runs(heir.memory)
            for run in filter(can_go_on, waiting):
                assert (await heir.resume(run["run_id"])).text == "Sent 2."
            messages = await stored(heir)
            assert [messages[0], messages[1], messages[-1]] == [
                ("user", "Write to Ana and Bo."),
                ("assistant", "[send][send]"),
                ("assistant", "Sent 2."),
            ], calls
            results = messages[2:-1]
            assert len(results) == 2, calls
            assert {text for _, text in results} <= {DONE, INTERRUPTED}
            assert sorted(sent) == sorted(set(sent)), calls
            assert len(sent) >= len([text for _, text in results if text == DONE]), calls
        assert calls > 12
