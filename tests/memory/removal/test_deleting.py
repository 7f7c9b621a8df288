"""delete_messages: what goes, what stays whole, and what can be brought back."""

import dataclasses
from collections.abc import Callable

import pytest

from layerlore.memory.engine.engine import WriteRequest
from layerlore.memory.removal import deletion as removal_deletion
from layerlore.memory.removal import undo as removal_undo
from layerlore.server.runtime.engines import open_engine
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.records import DAY_MS, Origin, Scope

from ...server.tools.calling import Connect, Json, Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

SCOPE = Scope("local", "default", "default")
CALL = {"id": "c1", "function": {"name": "weather", "arguments": '{"city":"Lima"}'}}
TURNS = [
    {"role": "user", "content": "my cat is called Miso", "id": "u1"},
    {"role": "assistant", "content": "a fine name", "id": "a1"},
    {"role": "user", "content": "and what is the weather?", "id": "u2"},
    {"role": "assistant", "content": "I look it up", "tool_calls": [CALL], "id": "a2"},
    {"role": "tool", "tool_call_id": "c1", "content": "drizzle", "id": "t2"},
    {"role": "assistant", "content": "it drizzles in Lima", "id": "a3"},
]


async def ids(tools: Tools, thread_id: str = "main") -> list[str]:
    return [message["id"] for message in await tools.messages(thread_id)]


async def undo(settings: Settings, undo_id: str) -> None:
    """What the operator does; the server need not run."""
    engine = await open_engine(settings)
    try:
        await removal_undo.undo(engine, SCOPE, undo_id, sent=WriteRequest(Origin("test", "undo")))
    finally:
        await engine.database.close()


async def test_the_last_turn_begins_with_the_latest_user_message(tools: Tools) -> None:
    await tools.add("main", *TURNS)
    answer = await tools("delete_messages", which="last_turn", thread_id="main")
    assert (answer["thread_id"], answer["deleted"], answer["ids"]) == ("main", 4, ["u2", "a2", "t2", "a3"])
    assert await ids(tools) == ["u1", "a1"]
    left = await tools.messages("main")
    assert answer["totals"] == {"messages": 2, "tokens": sum(message["tokens"] for message in left)}
    assert answer["undo"]
    assert (await tools("delete_messages", which="last_turn", thread_id="main"))["ids"] == ["u1", "a1"]
    assert "no user message" in await tools.refused("delete_messages", which="last_turn", thread_id="main")


async def test_the_last_turn_is_whole_where_it_began_with_several_messages_of_the_user(tools: Tools) -> None:
    two = [{"role": "user", "content": text, "id": id_} for id_, text in (("u4", "wait"), ("u5", "one more thing"))]
    await tools.add("main", *TURNS)
    await tools.add("main", *two, {"role": "assistant", "content": "yes?", "id": "a5"})
    assert (await tools("delete_messages", which="last_turn", thread_id="main"))["ids"] == ["u4", "u5", "a5"]
    assert await ids(tools) == ["u1", "a1", "u2", "a2", "t2", "a3"]
    for each in two:
        await tools.add("main", {**each, "id": f"{each['id']} again"})
    assert (await tools("delete_messages", which="last_turn", thread_id="main"))["ids"] == ["u5 again"]


async def test_the_last_turn_ends_where_what_was_added_with_it_was_deleted(tools: Tools) -> None:
    told = [{"id": f"said {number}", "role": "user", "content": f"Order number {number}."} for number in range(3)]
    await tools("add_messages", thread_id="orders", messages=told)
    await tools("delete_messages", which="ids", ids=["said 0"], thread_id="orders")
    deleted = await tools("delete_messages", which="last_turn", thread_id="orders")
    assert deleted["ids"] == ["said 1", "said 2"]


async def test_results_of_tools_in_the_users_role_begin_no_turn(tools: Tools) -> None:
    use = {"type": "tool_use", "id": "c9", "name": "look", "input": {}}
    await tools.add(
        "main",
        {"role": "user", "content": "look", "id": "u1"},
        {"role": "assistant", "content": [use], "id": "a1"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c9", "content": "seen"}], "id": "r1"},
        {"role": "assistant", "content": "done", "id": "a2"},
    )
    assert (await tools("delete_messages", which="last_turn", thread_id="main"))["ids"] == ["u1", "a1", "r1", "a2"]


async def test_chosen_ids_go_and_all_others_stay(tools: Tools) -> None:
    await tools.add("main", *TURNS)
    answer = await tools("delete_messages", which="ids", ids=["a1", "u1"], thread_id="main")
    assert answer["ids"] == ["u1", "a1"]
    assert await ids(tools) == ["u2", "a2", "t2", "a3"]


async def test_one_unknown_id_keeps_all_of_them_there(tools: Tools) -> None:
    await tools.add("main", *TURNS)
    error = await tools.refused("delete_messages", which="ids", ids=["u1", "nobody"], thread_id="main")
    assert "'nobody'" in error
    assert "nothing was deleted" in error
    for unfit in ("", "a\x00b", "x" * 256):
        assert "ids[0]" in await tools.refused("delete_messages", which="ids", ids=[unfit], thread_id="main")
    assert len(await ids(tools)) == 6


async def test_roles_narrow_what_goes(tools: Tools) -> None:
    await tools.add("main", *TURNS)
    await tools("delete_messages", which="all", roles=["user"], thread_id="main")
    assert await ids(tools) == ["a1", "a2", "t2", "a3"]
    answer = await tools("delete_messages", which="ids", ids=["a1"], roles=["user"], thread_id="main")
    assert (answer["deleted"], answer["ids"]) == (0, [])
    assert "undo" not in answer


async def test_all_wants_the_thread_named_and_leaves_it_empty(connect: Connect) -> None:
    async with connect(thread="main") as tools:
        await tools.add("main", *TURNS)
        assert "thread_id" in await tools.refused("delete_messages", which="all")
        assert len(await ids(tools)) == 6
        assert (await tools("delete_messages", which="all", thread_id="main"))["deleted"] == 6
        assert await ids(tools) == []
        (row,) = (await tools("list_threads"))["threads"]
        assert (row["thread_id"], row["messages"], row["tokens"]) == ("main", 0, 0)


async def test_which_has_no_default(tools: Tools) -> None:
    await tools.add("main", *TURNS)
    assert "which" in await tools.refused("delete_messages", thread_id="main")
    assert "'last_turn', 'all' or 'ids'" in await tools.refused("delete_messages", which="some", thread_id="main")
    assert "ids" in await tools.refused("delete_messages", which="ids", thread_id="main")
    assert "ids" in await tools.refused("delete_messages", which="last_turn", ids=["u1"], thread_id="main")
    assert len(await ids(tools)) == 6


async def test_what_was_deleted_is_gone_from_reads_recall_and_neighbours_at_once(tools: Tools) -> None:
    await tools.add("main", *TURNS)
    await tools("delete_messages", which="ids", ids=["u1"], thread_id="main")
    assert await tools.found("Miso cat") == []
    (hit,) = await tools.hits("fine name")
    assert "before" not in hit
    assert "Miso" not in await tools("recall_memory", query="name")
    assert (await tools.page("main"))["total"] == 5
    assert (await tools("memory_status"))["counts"]["restorable_deletes"] == 1


@pytest.mark.parametrize(("gone", "left"), [("t2", ["u1", "a1", "u2", "a2", "a3"]), ("a2", ["u1", "a1", "u2", "a3"])])
async def test_a_half_deleted_turn_shows_no_call_without_its_result_and_no_result_without_its_call(
    tools: Tools, gone: str, left: list[str]
) -> None:
    await tools.add("main", *TURNS)
    await tools("delete_messages", which="ids", ids=[gone], thread_id="main")
    assert await ids(tools) == left
    kinds = {part["type"] for message in await tools.messages("main") for part in message["parts"]}
    assert kinds == {"text"}
    assert "tool" not in await tools("recall_memory", query="look weather drizzles", detail="high")


async def test_a_restored_delete_is_there_and_found_as_before(
    tools: Tools, settings_for: Callable[..., Settings]
) -> None:
    await tools.add("main", *TURNS)
    before, status = await tools.messages("main"), await tools("memory_status")
    for which in ({"which": "ids", "ids": ["t2", "u1"]}, {"which": "last_turn"}, {"which": "all"}):
        deleted = await tools("delete_messages", thread_id="main", **which)
        assert len(await tools.messages("main")) < 6
        await undo(settings_for(), deleted["undo"])
        assert await tools.messages("main") == before
        assert await tools.found("Miso", neighbours=False) == ["my cat is called Miso"]
        assert any("drizzle]" in text for text in await tools.found("drizzle", neighbours=False))
    # Jobs come due meanwhile: how soon is the clock's.
    assert {**await tools("memory_status"), "jobs": ...} == {**status, "jobs": ...}


@pytest.mark.parametrize("which", [{"which": "ids", "ids": ["u1", "t2"]}, {"which": "last_turn"}])
@pytest.mark.parametrize("days", [30, 0])
async def test_a_list_that_is_sent_again_does_not_bring_back_what_was_deleted(
    connect: Connect, which: Json, days: int
) -> None:
    async with connect(retention={"deleted_days": days}) as tools:
        await tools.add("main", *TURNS)
        gone = (await tools("delete_messages", thread_id="main", **which))["ids"]
        left = await tools.messages("main")
        new = {"role": "user", "content": "and tomorrow?", "id": "u4"}
        for sent in (TURNS, [*TURNS, new], [*TURNS[2:], new]):
            answer = await tools.add("main", *sent)
            assert answer["skipped_deleted"] == [each["id"] for each in sent if each["id"] in gone]
            assert [each["id"] for each in answer["messages"]] == [
                each["id"] for each in sent if each["id"] not in gone
            ]
        assert await tools.messages("main") == [*left, (await tools.messages("main"))[-1]]
        assert await ids(tools) == [*(each["id"] for each in left), "u4"]
        assert "skipped_deleted" not in await tools.add("main", {"role": "user", "content": "thanks", "id": "u5"})


async def test_what_was_erased_after_its_time_is_not_brought_back_either(
    tools: Tools, settings_for: Callable[..., Settings]
) -> None:
    await tools.add("main", *TURNS)
    await tools("delete_messages", thread_id="main", which="ids", ids=["t2"])
    assert (await tools.add("main", *TURNS))["skipped_deleted"] == ["t2"]
    engine = await open_engine(settings_for())
    try:
        now = engine.now() + 31 * DAY_MS
        assert await removal_deletion.erase_expired(dataclasses.replace(engine, now=lambda: now)) == 1
    finally:
        await engine.database.close()
    answer = await tools.add("main", *TURNS)
    assert answer["skipped_deleted"] == ["t2"]
    assert {each["status"] for each in answer["messages"]} == {"unchanged"}
    assert await ids(tools) == ["u1", "a1", "u2", "a2", "a3"]


async def test_an_id_that_was_deleted_is_skipped_whatever_is_sent_under_it(
    tools: Tools, settings_for: Callable[..., Settings]
) -> None:
    await tools.add("main", *TURNS)
    deleted = await tools("delete_messages", which="ids", ids=["u1"], thread_id="main")
    again: Json = {"thread_id": "main", "messages": [{"role": "user", "content": "new", "id": "u1"}]}
    for replace in (False, True):
        answer = await tools("add_messages", replace=replace, ids=True, **again)
        assert (answer["messages"], answer["skipped_deleted"]) == ([], ["u1"])
    assert "'u1'" in await tools.refused("delete_messages", which="ids", ids=["u1"], thread_id="main")
    await undo(settings_for(), deleted["undo"])
    assert (await tools.add("main", TURNS[0]))["messages"][0]["status"] == "unchanged"


async def test_without_retention_a_delete_erases_at_once(connect: Connect) -> None:
    async with connect(retention={"deleted_days": 0}) as tools:
        await tools.add("main", *TURNS)
        answer = await tools("delete_messages", which="ids", ids=["u1"], thread_id="main")
        assert answer.keys() == {"thread_id", "deleted", "ids", "totals"}
        assert (await tools("memory_status"))["counts"]["restorable_deletes"] == 0
        assert (await tools.add("main", TURNS[0]))["skipped_deleted"] == ["u1"]
        gone = await tools("delete_thread", thread_id="main")
        assert gone == {"thread_id": "main", "deleted_messages": 5}


async def test_many_deleted_messages_are_counted_whole_and_named_up_to_a_hundred(tools: Tools) -> None:
    await tools.say("main", *["x"] * 100)
    await tools.say("main", "y")
    answer = await tools("delete_messages", which="all", thread_id="main")
    assert (answer["deleted"], len(answer["ids"])) == (101, 100)
