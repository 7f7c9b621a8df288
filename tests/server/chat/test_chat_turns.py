"""One turn of the reference agent: context, model, tools, and what is stored of it."""

from typing import Any

import pytest
from fake_openai import Asks, FakeOpenAI, refusing

from layerlore.server.chat.model import LitellmModel, ModelFailed

from .conftest import OpenAgent
from .talking import asked, events, sent_text, stored, telling

pytestmark = pytest.mark.anyio


async def test_a_turn_is_streamed_or_comes_whole_and_the_next_one_knows_it(
    open_agent: OpenAgent, provider: FakeOpenAI
) -> None:
    async with open_agent() as agent:
        provider.replies.extend(["To Lisbon, then.", "It is sunny there."])
        pieces: list[str] = []
        turn = await agent.stream("I go to Lisbon.", pieces.append)
        assert (turn.status, turn.text, "".join(pieces)) == ("completed", "To Lisbon, then.", "To Lisbon, then.")
        assert len(pieces) > 1
        turn = await agent.generate("How is the weather there?")
        assert turn.text == "It is sunny there."
        assert [message["content"] for message in asked(provider)[1]][1:] == [
            "I go to Lisbon.",
            "To Lisbon, then.",
            "How is the weather there?",
        ]
        assert [request.get("stream") for request in provider.requests] == [True, None]
        assert turn.usage["input_tokens"] > 0
        assert turn.usage["cost_usd"] > 0


async def test_each_iteration_is_stored_before_the_next_under_ids_of_the_run(
    open_agent: OpenAgent, provider: FakeOpenAI
) -> None:
    async with open_agent(telling("weather", "sun in {town}")) as agent:
        seen: list[Any] = []

        def reply(request: Any) -> Any:
            seen.append([message["role"] for message in request["messages"]][1:])
            return Asks([("weather", {"town": "Lisbon"}), ("weather", {"town": "Porto"})]) if len(seen) < 2 else "Sun."

        provider.reply = reply
        turn = await agent.stream("Weather?", lambda piece: None)
        assert seen == [["user"], ["user", "assistant", "tool", "tool"]]
        asked, calls, *results, answer = await stored(agent)
        assert [asked, calls, answer] == [
            ("user", "Weather?"),
            ("assistant", "[weather][weather]"),
            ("assistant", "Sun."),
        ]
        assert sorted(results) == [("tool", "sun in Lisbon"), ("tool", "sun in Porto")]
        page = await agent.memory.call("get_messages", format="json")
        ids = [message["id"].removeprefix(turn.run_id) for message in page["messages"]]
        assert sorted(ids) == ["-0", "-1", "-1-1", "-1-2", "-2"]
        run = await agent.memory.call("get_run", run_id=turn.run_id)
        assert (run["status"], run["output"]) == ("completed", {"text": "Sun."})


async def test_a_turn_ends_after_twenty_iterations_and_says_so(open_agent: OpenAgent, provider: FakeOpenAI) -> None:
    async with open_agent(telling("dig")) as agent:
        provider.reply = Asks([("dig", {})])
        turn = await agent.generate("Dig.")
        assert len(provider.requests) == 20
        assert (turn.status, turn.text) == ("completed", "I stopped after 20 steps. Shall I go on?")
        assert (await stored(agent))[-1] == ("assistant", turn.text)


async def test_every_rule_of_the_user_is_there_after_more_than_a_hundred_tool_steps_in_a_small_budget(
    open_agent: OpenAgent, provider: FakeOpenAI
) -> None:
    rules = [
        f"Always put {name} files into folder {name}-{number}." for number, name in enumerate(("red", "blue", "tan"))
    ]
    async with open_agent(telling("read", "line {n} of a long log, " * 40), max_tokens=3_000) as agent:
        for rule in rules:
            provider.replies.append("Agreed.")
            await agent.generate(rule)
        steps = 0
        for _ in range(2):
            provider.replies.extend(Asks([("read", {"n": n * 6 + k}) for k in range(6)]) for n in range(9))
            provider.replies.append("I read them.")
            assert (await agent.generate("Read on.")).status == "completed"
            steps += 6 * 9
        assert steps > 100
        assert [rule for rule in rules if rule not in sent_text(provider)] == []
        assert agent.shown[1]["tokens"] <= 3_000
        assert len([role for role, _ in await stored(agent) if role == "tool"]) == steps


async def test_what_a_model_gets_wrong_it_reads_and_what_fails_for_good_ends_the_run(
    open_agent: OpenAgent, provider: FakeOpenAI
) -> None:
    async with open_agent(telling("weather")) as agent:
        provider.replies.extend([Asks([("wether", {})]), "I mistyped."])
        await agent.generate("Weather?")
        assert "there is no tool 'wether'; there are: weather" in sent_text(provider)
        provider.chat_faults.append(refusing(401, "wrong key"))
        turn = await agent.generate("And now?")
        assert turn.status == "failed"
        assert "AuthenticationError" in turn.text
        assert "\n" not in turn.text
        assert (await agent.memory.call("get_run", run_id=turn.run_id))["status"] == "failed"
        assert len(await events(agent, "Error")) == 1
        assert (await agent.generate("Again?")).status == "completed"


async def test_a_model_whose_key_is_missing_names_the_variable_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelFailed, match="openai/gpt-4o-mini: it needs a key: set OPENAI_API_KEY"):
        await LitellmModel("openai/gpt-4o-mini").ask([{"role": "user", "content": "hello"}], [])
