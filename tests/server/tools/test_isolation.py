"""A thread and messages of another agent or resource are indistinguishable from ones that do not exist."""

from collections.abc import AsyncIterator

import pytest

from .calling import Connect, Json, Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]


READING: list[tuple[str, Json]] = [
    ("get_messages", {}),
    ("get_context", {}),
    ("get_working_memory", {}),
    ("get_briefing", {"task": "x"}),
    ("plan", {"action": "review"}),
    ("list_threads", {}),
    ("list_runs", {}),
    ("list_steps", {}),
    ("list_events", {}),
]
REFUSED: list[tuple[str, Json]] = [
    ("delete_messages", {"which": "all"}),
    ("delete_messages", {"which": "last_turn"}),
    ("delete_messages", {"which": "ids", "ids": ["m1"]}),
    ("plan", {"action": "review", "revision": 1}),
    ("plan", {"action": "update", "plan": {"goal": "x"}}),
    ("get_working_memory", {"version": 1}),
    ("clear_working_memory", {}),
    ("delete_thread", {}),
    ("recall_memory", {"query": "garden"}),
]


@pytest.fixture(params=[{"resource": "ben"}, {"agent": "coach"}], ids=["another resource", "another agent"])
async def other(request: pytest.FixtureRequest, connect: Connect) -> AsyncIterator[Tools]:
    """A client on the same database whose scope differs in one name."""
    async with connect(toolsets="all", **request.param) as tools:
        yield tools


async def test_foreign_and_unknown_threads_give_the_same_answer_on_every_tool(all_tools: Tools, other: Tools) -> None:
    tools = all_tools
    await tools.add("theirs", {"role": "user", "content": "a secret garden", "id": "m1"})
    await tools("plan", action="create", plan={"goal": "water it"}, thread_id="theirs")
    await tools("update_working_memory", content="it is secret", thread_id="theirs")
    for tool, arguments in READING:
        found, nothing = [await other(tool, thread_id=thread, **arguments) for thread in ("theirs", "nobody")]
        assert str(found).replace("theirs", "nobody") == str(nothing), tool
    for tool, arguments in REFUSED:
        foreign = await other.refused(tool, thread_id="theirs", **arguments)
        unknown = await other.refused(tool, thread_id="nobody", **arguments)
        assert foreign.replace("theirs", "nobody") == unknown
    # The first answer that finds nothing also suggests other wordings.
    await other("recall_memory", query="anything")
    assert await other("recall_memory", query="garden") == await other("recall_memory", query="unheard")
    assert await tools.texts("theirs") == ["a secret garden"]


async def test_a_foreign_act_is_as_unknown_as_any_other(tools: Tools, other: Tools) -> None:
    await tools.say("theirs", "a secret garden")
    for text in ("a secret", "no secret"):
        await tools("update_working_memory", content=text, thread_id="theirs")
    deleted = await tools("delete_messages", which="all", thread_id="theirs")
    for force in (False, True):
        foreign = await other.refused("undo", undo_id=deleted["undo"], force=force)
        unknown = await other.refused("undo", undo_id="u_aaaaaaaa", force=force)
        assert foreign.replace(deleted["undo"], "u_aaaaaaaa") == unknown
        assert "there is nothing to undo" in await other.refused("undo", undo_id="last", force=force)
    assert (await other("undo"))["acts"] == []
    assert (await tools("undo", undo_id=deleted["undo"]))["messages"] == 1


async def test_a_foreign_message_id_is_as_unknown_as_any_other_and_free_to_use(tools: Tools, other: Tools) -> None:
    await tools.add("main", {"role": "user", "content": "a secret garden", "id": "m1"})
    await other.say("main", "hello")
    foreign = await other.refused("delete_messages", which="ids", ids=["m1"], thread_id="main")
    unknown = await other.refused("delete_messages", which="ids", ids=["m9"], thread_id="main")
    assert foreign.replace("m1", "m9") == unknown
    added = await other.add("main", {"role": "user", "content": "mine", "id": "m1"})
    assert added["messages"][0]["status"] == "added"
    assert await tools.texts("main") == ["a secret garden"]


async def test_threads_of_one_name_live_beside_each_other(tools: Tools, other: Tools) -> None:
    await tools.say("main", "hers")
    await other.say("main", "his", "his too")
    await tools("update_thread", thread_id="main", title="Hers")
    (row,) = (await other("list_threads"))["threads"]
    assert (row["messages"], "title" in row) == (2, False)
    await other("delete_thread", thread_id="main")
    assert await tools.texts("main") == ["hers"]
    assert (await tools("memory_status"))["counts"]["threads"] == 1
    assert (await other("memory_status"))["counts"]["threads"] == 0


async def test_what_others_say_is_never_recalled_and_never_moves_a_ranking(tools: Tools, other: Tools) -> None:
    await tools.say("main", "tea with saffron", "tea at noon", "saffron rice", "a walk")
    request: Json = {"query": "saffron tea walk", "format": "json", "explain": True}
    before = await tools("recall_memory", **request)
    await other.say("main", *["saffron", "saffron tea", "walk walk walk"] * 20)
    assert await tools("recall_memory", **request) == before
    assert await other.found("rice") == []


async def test_a_scope_is_not_confused_with_one_whose_names_join_to_the_same(connect: Connect) -> None:
    async with connect(agent="a", resource="bc") as one, connect(agent="ab", resource="c") as two:
        await one.say("main", "a secret garden")
        assert await two.found("garden") == []
        assert (await two("list_threads"))["threads"] == []
