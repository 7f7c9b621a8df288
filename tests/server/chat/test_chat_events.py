"""The lifecycle events of a run, and a second terminal that follows them."""

import re
from typing import Any

import anyio
import pytest
from fake_openai import Asks, FakeOpenAI, refusing

from layerlore.server.chat.terminal import Screen, follow

from .conftest import OpenAgent
from .talking import events, telling

pytestmark = pytest.mark.anyio
PATIENCE = 60


async def test_a_second_terminal_shows_the_seven_events_as_they_happen(
    open_agent: OpenAgent, provider: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    ended = anyio.Event()
    following = anyio.Event()

    def block(_: Screen, text: str) -> None:
        shown.append(text)
        if "run_failed" in text:
            ended.set()

    monkeypatch.setattr(Screen, "block", block)
    monkeypatch.setattr(Screen, "note", lambda *_: following.set())
    heard: list[str] = []

    def notify(kind: str, payload: Any) -> None:
        heard.append(kind)

    async with open_agent(telling("weather", "sun"), notify=notify) as agent, open_agent() as other:
        provider.replies.extend([Asks([("weather", {})]), "Sun."])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, other.memory, Screen())
            await following.wait()
            await agent.generate("Weather?")
            provider.chat_faults.append(refusing(401))
            await agent.generate("And tomorrow?")
            with anyio.fail_after(PATIENCE):
                await ended.wait()
            tasks.cancel_scope.cancel()
        first = ["AgentStart", "TurnStart", "ToolExecutionStart", "ToolExecutionEnd", "TurnEnd"]
        expected = [*first, "TurnStart", "TurnEnd", "AgentEnd", "AgentStart", "TurnStart", "Error"]
        assert heard == expected
        kinds = [re.match(r"[\d:]+ (\w+)", line)[1] for line in shown]  # type: ignore[index]
        assert [kind for kind in kinds if not kind.startswith("run_")] == expected
        assert [kind for kind in kinds if kind in ("run_started", "run_completed", "run_failed")] == [
            *("run_started", "run_completed"),
            *("run_started", "run_failed"),
        ]
        (started,) = await events(other, "ToolExecutionStart")
        assert started["payload"].items() >= {"toolName": "weather", "args": "{}"}.items()
        (done,) = await events(other, "ToolExecutionEnd")
        assert done["payload"].items() >= {"result": "sun", "isError": False}.items()
