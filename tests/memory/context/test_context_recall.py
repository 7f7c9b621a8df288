"""What get_context brings of what was said in other threads, and in its own before the window."""

import pytest

from layerlore.memory.recall.recall_text import UNSURE

from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio

TOLD = "My cat Mila was born in the lighthouse of Hörnum."
ASKED = "In which lighthouse was Mila born?"


def memory_of(text: str) -> str:
    """What stands in the block of memories; "" without one."""
    return text.partition("<memory>")[2].partition("</memory>")[0]


def shown(context: Json, form: str) -> list[str]:
    """All texts of a context in a provider's shape, or its blocks, in their order."""
    if form == "json":
        return [each.get("text") or str(each["messages"]) for each in context["blocks"]]
    contents = [each["content"] for each in context["messages"]]
    return [each if isinstance(each, str) else "\n".join(part["text"] for part in each) for each in contents]


@pytest.mark.databases
async def test_a_new_conversation_knows_what_another_one_said(tools: Tools) -> None:
    await tools.add("trip", {"role": "user", "name": "Ana", "content": TOLD}, {"role": "assistant", "content": "Oh!"})
    await tools.say("kitchen", "The bread needs forty minutes.")
    told = await tools("get_context", thread_id="new", query=ASKED)
    assert f"Ana: {TOLD}" in memory_of(told)
    assert "trip" in memory_of(told)
    assert "forty minutes" not in told
    await tools.say("new", ASKED)
    assert f"Ana: {TOLD}" in memory_of(await tools("get_context", thread_id="new"))


@pytest.mark.parametrize("form", ["openai", "anthropic", "json"])
async def test_every_format_tells_memories_with_the_turn_that_they_are_for(tools: Tools, form: str) -> None:
    await tools.say("trip", TOLD)
    told = await tools("get_context", thread_id="new", query=ASKED, format=form)
    assert TOLD in shown(told, form)[-1]
    await tools.say("new", "Good morning!", ASKED)
    told = await tools("get_context", thread_id="new", format=form)
    texts = shown(told, form)
    (place,) = (at for at, text in enumerate(texts) if TOLD in text)
    assert place == (len(texts) - 2 if form == "json" else len(texts) - 1)
    assert ASKED in texts[-1]
    assert "<memory>" in texts[place]
    assert "memory" in [each["block"] for each in told["report"]["blocks"]]


async def test_a_conversation_knows_what_it_said_before_its_window(tools: Tools) -> None:
    await tools("update_thread", thread_id="main", window={"limit": "messages", "max_messages": 4})
    await tools.say("main", TOLD, *(f"A remark on page {number}." for number in range(9)), ASKED)
    told = await tools("get_context", thread_id="main")
    assert TOLD in memory_of(told)
    assert TOLD not in told.partition("</memory>")[2]


async def test_memories_repeat_nothing_that_the_context_shows(tools: Tools) -> None:
    await tools.say("trip", "The lighthouse of Hörnum is where Mila was born.", "hello  MILA")
    await tools.say("main", "the lighthouse of Hörnum  is where MILA was born.", "hello Mila", "Who is Mila?")
    told = await tools("get_context", thread_id="main")
    assert told.casefold().count("is where mila was born.") == 1
    assert told.casefold().count("hello mila") == 1
    kept = await tools("remember", content="Born in Hörnum: Mila.", thread_id="main", evidence="where MILA was born")
    assert "Born in Hörnum" not in await tools("get_context", thread_id="main"), kept
    assert "Born in Hörnum" in memory_of(await tools("get_context", thread_id="new", query="Who is Mila?"))
    await tools("update_working_memory", content="Mila was born at sea, they say.", scope="resource")
    await tools.say("trip", "Mila was born at sea, they say.")
    assert "born at sea" not in memory_of(await tools("get_context", thread_id="new", query="Who is Mila?"))


async def test_what_is_asked_and_what_came_after_it_are_no_memories(tools: Tools) -> None:
    await tools("update_thread", thread_id="main", window={"limit": "messages", "max_messages": 1})
    await tools.say("main", ASKED)
    await tools.add("main", {"role": "assistant", "content": "Mila the cat: let me see about her lighthouse."})
    await tools.add("main", {"role": "assistant", "content": "One moment."})
    assert memory_of(await tools("get_context", thread_id="main")) == ""


async def test_entries_stand_before_lines_and_each_says_whose_word_it_is(tools: Tools) -> None:
    page = {"role": "tool", "name": "fetch", "tool_call_id": "c1", "content": "Mila is the name of a lighthouse."}
    call = {"id": "c1", "type": "function", "function": {"name": "fetch", "arguments": "{}"}}
    await tools.add("trip", {"role": "user", "content": TOLD}, {"role": "assistant", "tool_calls": [call]}, page)
    await tools("remember", content="Mila loves the lighthouse.")
    lines = [line for line in memory_of(await tools("get_context", query=ASKED)).splitlines() if "ila" in line]
    assert lines[0] == "- [assistant] Mila loves the lighthouse. (today)"
    assert any(f"user: {TOLD}" in line for line in lines[1:])
    assert any("tool" in line and "Mila is the name" in line for line in lines[1:])


async def fill(tools: Tools) -> None:
    """More in another thread, and in the window, than there is room for."""
    for start in range(0, 150, 50):
        said = (
            f"The lighthouse of bay {number} was lit by keeper {number * 7}." for number in range(start, start + 50)
        )
        await tools.say("log", *said)
    await tools.say("main", *(f"{number}: " + f"tea{number} " * 20 for number in range(100)))


async def test_memories_have_a_quarter_of_the_room_that_a_window_would_fill(tools: Tools) -> None:
    await fill(tools)
    await tools.say("main", "Who lit the lighthouse of which bay?")
    report = (await tools("get_context", thread_id="main", format="json", max_tokens=4000))["report"]
    tokens = {each["block"]: each["tokens"] for each in report["blocks"]}
    assert tokens["memory"] >= 950
    assert tokens["conversation"] > 800
    assert sum(tokens.values()) <= 4000


async def test_memories_have_all_that_a_new_conversation_leaves(tools: Tools) -> None:
    await fill(tools)
    told = await tools("get_context", thread_id="new", query="Who lit the lighthouse of which bay?", max_tokens=2000)
    assert memory_of(told).count("was lit by keeper") > 30


@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_what_a_prompt_cache_keeps_is_the_same_whatever_is_recalled(tools: Tools, form: str) -> None:
    await fill(tools)
    await tools("update_working_memory", content=" ".join(f"fact{n}" for n in range(300)), scope="resource")
    kept = []
    for query in ("Who lit the lighthouse of which bay?", "the lighthouse of bay 17", "zebra"):
        told = await tools("get_context", thread_id="main", query=query, format=form, max_tokens=7000)
        assert ("<memory>" in "\n".join(shown(told, form))) == (query != "zebra")
        kept.append(str({**told, "messages": told["messages"][:-1], "report": None}))
    assert kept[0] == kept[1] == kept[2]


async def test_an_operator_can_switch_memories_off_or_leave_them_only_what_the_window_leaves(connect: Connect) -> None:
    async with connect(context={"memory": False}) as tools:
        await fill(tools)
        await tools("remember", content="Keepers lit the lighthouse of each bay.")
        assert "<memory>" not in await tools("get_context", thread_id="main", query="the lighthouse of bay 17")
        whole = await tools("get_context", thread_id="main", format="json", max_tokens=4000)
    async with connect(context={"memory_share": 0}) as tools:
        told = await tools(
            "get_context", thread_id="main", query="the lighthouse of bay 17", format="json", max_tokens=4000
        )
        assert [each for each in told["blocks"] if each["block"] != "memory"] == whole["blocks"]


async def test_an_operator_can_set_how_relevant_a_memory_must_be(connect: Connect) -> None:
    async with connect(recall={"floor": 1.0}) as tools:
        await tools.say("trip", TOLD)
        assert memory_of(await tools("get_context", thread_id="new", query=ASKED)) == ""
    async with connect() as tools:
        block = memory_of(await tools("get_context", thread_id="new", query="Which lighthouse keeper sings?"))
        assert block.index(UNSURE) < block.index(TOLD)


async def test_a_new_conversation_is_no_error_and_says_how_more_is_told(tools: Tools) -> None:
    await tools("update_working_memory", content="Likes it strong.", scope="resource")
    await tools.say("trip", TOLD)
    told = await tools("get_context", thread_id="new")
    assert "Likes it strong." in told
    assert "pass the user's message as query" in told
    told = await tools("get_context", thread_id="new", query="zebra")
    assert "nothing that is remembered fits the query" in told
