"""A turn that is cancelled, from here or from anywhere, ends as cancelled."""

import anyio
import pytest
from fake_openai import Asks, FakeOpenAI, Halts

from layerlore.server.chat.agent import Agent
from layerlore.server.chat.tools import Tool, ToolResult

from .conftest import OpenAgent
from .talking import ANY_OBJECT, stored

pytestmark = pytest.mark.anyio
PATIENCE = 60


async def status(agent: Agent) -> str:
    """Of the newest run."""
    run = (await agent.memory.call("list_runs", limit=1))["runs"][0]
    found: str = (await agent.memory.call("get_run", run_id=run["run_id"]))["status"]
    return found


@pytest.mark.parametrize("by", ["abort", "another client"])
async def test_a_turn_is_cancelled_in_the_middle_of_a_models_answer(
    open_agent: OpenAgent, provider: FakeOpenAI, by: str
) -> None:
    async with open_agent() as agent, open_agent() as other:
        provider.replies.extend([Halts("Once upon a time"), "Fine."])
        begun = anyio.Event()

        async def cancel() -> None:
            await begun.wait()
            assert await status(other) == "running"
            if by == "abort":
                agent.abort()
            else:
                (run,) = (await other.memory.call("list_runs", status=["running"]))["runs"]
                await other.memory.call("cancel_run", run_id=run["run_id"], reason="too long")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            with anyio.fail_after(PATIENCE):
                turn = await agent.stream("Tell me a story.", lambda piece: begun.set())
        assert turn.status == "cancelled"
        assert await status(other) == "cancelled"
        assert await stored(agent) == [("user", "Tell me a story.")]
        assert (await agent.generate("Stop.")).text == "Fine."


async def test_every_state_of_a_run_is_read_on_the_way(open_agent: OpenAgent, provider: FakeOpenAI) -> None:
    seen: list[str] = []

    async def look(arguments: object) -> ToolResult:
        seen.append(await status(other))
        return ToolResult("looked")

    async with open_agent(Tool("look", "Looks.", ANY_OBJECT, look, asks=True)) as agent, open_agent() as other:
        provider.replies.extend([Asks([("look", {})]), "Looked."])
        turn = await agent.generate("Look.")
        seen.append(await status(other))
        agent.tools.allowed.add("look")
        await agent.resume(turn.run_id)
        seen.append(await status(other))
        assert seen == ["suspended", "running", "completed"]
        agent.tools.allowed.clear()
        provider.replies.append(Asks([("look", {})]))
        turn = await agent.generate("Look again.")
        await other.memory.call("cancel_run", run_id=turn.run_id)
        assert await status(other) == "cancelled"
