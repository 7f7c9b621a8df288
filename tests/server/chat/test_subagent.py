"""A sub-agent as a tool: it knows its briefing alone, and whoever tries again knows of it."""

import pytest
from fake_openai import Asks, FakeOpenAI, refusing

from layerlore.server.chat.agent import Agent, SubAgent
from layerlore.server.chat.tools import Toolbox

from .conftest import OpenAgent
from .talking import asked, stored, telling

pytestmark = pytest.mark.anyio

TASK = {"task": "Build the report.", "task_key": "build:report"}


async def test_a_sub_agent_works_from_its_briefing_and_a_retry_sees_the_attempt_and_its_usage_is_the_runs(
    open_agent: OpenAgent, provider: FakeOpenAI
) -> None:
    tools = Toolbox([telling("read", "42 pages"), telling("print", asks=True)])
    async with open_agent() as parent:
        sub_agent = SubAgent("delegate", parent.memory, parent.model, tools)
        agent = Agent(parent.memory, parent.model, Toolbox([sub_agent.as_tool("Delegates.")]), sub_agents=[sub_agent])
        provider.replies.append("Agreed.")
        await agent.generate("Rule: every report is written in Portuguese.")
        provider.replies.extend(
            [Asks([("delegate", TASK)]), Asks([("read", {})]), "It needs a table of contents.", "It is not done."]
        )
        turn = await agent.generate("Have the report built.")
        first, second = asked(provider)[-3:-1]
        assert [message["role"] for message in first] == ["system", "user"]
        assert "every report is written in Portuguese" in first[1]["content"]
        assert second[-1]["content"] == "42 pages"
        assert [each["function"]["name"] for each in provider.requests[-3]["tools"]] == ["read"]
        assert (await stored(agent))[-2:] == [
            ("tool", "It needs a table of contents."),
            ("assistant", "It is not done."),
        ]
        usage = (await agent.memory.call("get_run", run_id=turn.run_id))["usage"]
        (of_sub_agent,) = usage["sub_agents"]
        assert of_sub_agent["agent"] == "delegate"
        assert 0 < of_sub_agent["input_tokens"] < usage["input_tokens"]
        assert turn.usage == usage

        provider.replies.extend([Asks([("delegate", TASK)]), "With a table of contents, done.", "It is done."])
        await agent.generate("Again.")
        assert "It needs a table of contents." in asked(provider)[-2][1]["content"]


async def test_a_sub_agent_that_fails_is_an_attempt_too(open_agent: OpenAgent, provider: FakeOpenAI) -> None:
    async with open_agent() as parent:
        sub_agent = SubAgent("delegate", parent.memory, parent.model, Toolbox())
        agent = Agent(parent.memory, parent.model, Toolbox([sub_agent.as_tool("Delegates.")]), sub_agents=[sub_agent])
        provider.replies.extend([Asks([("delegate", TASK)]), "", "It failed."])
        provider.fault_of = lambda request: refusing(401) if "<task>" in request["messages"][-1]["content"] else None
        turn = await agent.generate("Have the report built.")
        assert turn.text == "It failed."
        briefing = await agent.memory.call("get_briefing", task="Build it.", task_key="build:report")
        assert "AuthenticationError" in briefing
