"""What get_context brings back of what was said elsewhere, and of what was noted."""

import pytest

from ...server.tools.calling import Connect, Tools

pytestmark = pytest.mark.anyio


async def test_entries_that_fit_the_question_or_the_newest_message_stand_before_the_turn(tools: Tools) -> None:
    await tools("remember", content="The user's dog is called Rex.")
    await tools("remember", content="The user bakes bread on Sundays.")
    await tools.say("main", "hello", "What is my dog called?")
    text = await tools("get_context", thread_id="main")
    before, _, after = text.partition("<memory>")
    memory, _, after = after.partition("</memory>")
    assert "- [assistant] The user's dog is called Rex. (today)" in memory
    assert "bread" not in memory
    assert "<conversation>" in before
    assert "<current-turn>" in after
    request = await tools("get_context", thread_id="main", query="When does the user bake bread?")
    assert "bread on Sundays" in request.partition("<memory>")[2].partition("</memory>")[0]
    openai = (await tools("get_context", thread_id="main", format="openai"))["messages"]
    assert "<memory>" in openai[-1]["content"]
    assert openai[-1]["content"].endswith("What is my dog called?")


async def test_what_nobody_asks_about_brings_no_memory(tools: Tools) -> None:
    await tools("remember", content="The user's dog is called Rex.")
    await tools.say("main", "Please translate this sentence")
    assert "<memory>" not in await tools("get_context", thread_id="main")


async def test_what_the_user_prefers_is_told_in_every_conversation_whatever_it_is_about(connect: Connect) -> None:
    wish, fact = "The user wants answers in German.", "The user's dog is called Rex."
    async with connect() as tools:
        await tools.say("other", "Please always answer in German. My dog is called Rex.")
        proof = {"thread_id": "other", "source": "user_assertion"}
        await tools("remember", content=wish, evidence="always answer in German", kind="preference", **proof)
        await tools("remember", content=fact, evidence="My dog is called Rex", kind="fact", **proof)
        # Without a user's words it is nobody's wish.
        await tools("remember", content="The user wants invoices sent elsewhere.", kind="preference")
        text = await tools("get_context", thread_id="new", query="How long do eggs boil?")
        assert [line for line in text.splitlines() if line.startswith("- ")] == [f"- {wish} (today)"]
        # Nothing is asked yet: what was kept last is worth most.
        unasked = await tools("get_context", thread_id="new")
        assert f"- {wish}" in unasked
        assert f"- {fact}" in unasked
        assert "- [assistant] The user wants invoices sent elsewhere." in unasked
        right = {"content": "The user wants answers in English.", "kind": "correction", **proof}
        await tools.say("other", "No, answer in English.")
        await tools("remember", evidence="answer in English", **right)
        assert wish not in await tools("get_context", thread_id="new", query="How long do eggs boil?")
    async with connect(entries={"preferences_top_k": 0}) as tools:
        await tools.say("other", "Please always answer in German.")
        proof = {"thread_id": "other", "source": "user_assertion"}
        await tools("remember", content=wish, evidence="always answer in German", kind="preference", **proof)
        assert wish not in await tools("get_context", thread_id="new", query="How long do eggs boil?")


async def test_an_operator_can_switch_memories_off(connect: Connect) -> None:
    async with connect(entries={"auto_inject": False}) as tools:
        await tools("remember", content="The user's dog is called Rex.")
        await tools.say("main", "What is my dog called?")
        assert "<memory>" not in await tools("get_context", thread_id="main")


async def test_a_forgotten_entry_is_in_no_context(tools: Tools) -> None:
    kept = await tools("remember", content="The user's dog is called Rex.")
    await tools.say("main", "What is my dog called?")
    assert "Rex" in await tools("get_context", thread_id="main")
    preview = await tools("forget", ids=[kept["id"]])
    assert "Rex" not in await tools("get_context", thread_id="main"), preview


async def test_a_context_tells_of_an_entry_that_shares_a_word_though_a_recall_is_not_sure(tools: Tools) -> None:
    await tools("remember", content="The user is vegetarian.")
    await tools.say("main", "Which restaurants suit a vegetarian in Kiel?")
    assert "- [assistant] The user is vegetarian. (today)" in await tools("get_context", thread_id="main")
    recalled = await tools("recall_memory", query="Which restaurants suit a vegetarian in Kiel?", kinds=["entry"])
    assert recalled.splitlines()[1] == "Not sure that these are about it:"
