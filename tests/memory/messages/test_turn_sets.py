"""History, input and response of a turn (seed 002's serialised message list): marked, and read back."""

import json

import pytest

from ...server.tools.calling import Json, Tools

pytestmark = pytest.mark.anyio

CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": {}}
RESULT = {"type": "tool-result", "toolCallId": "c1", "toolName": "look", "result": {"rows": 1}}


def turn_list(**more: object) -> Json:
    """A turn as an agent of seed 002 writes it down when it is suspended."""
    messages = [
        {"id": "h1", "role": "user", "content": "Hello", "createdAt": "2026-05-27T21:00:00Z"},
        {"id": "i1", "role": "user", "content": "Look it up", "createdAt": "2026-05-27T21:07:12Z"},
        {"id": "r1", "role": "assistant", "content": [CALL], "createdAt": "2026-05-27T21:07:13Z"},
        {"id": "u1", "type": "custom", "data": {"card": 1}, "createdAt": "2026-05-27T21:07:14Z"},
    ]
    sets = {"historyIds": ["h1"], "inputIds": ["i1"], "responseIds": ["r1", "u1"]}
    return {"turn": "t1", "messages": messages, **sets, **more}


@pytest.mark.databases
async def test_a_turn_that_was_interrupted_is_read_back_as_it_was_written_down(tools: Tools) -> None:
    await tools.add("main", {"id": "h0", "role": "user", "content": "Hi"})
    await tools("add_messages", messages=turn_list(), thread_id="main")
    page = await tools("get_messages", format="json", thread_id="main", turn="t1")
    assert [message["id"] for message in page["messages"]] == ["h0", "h1", "i1", "r1", "u1"]
    sets = {name: page[name] for name in ("turn", "historyIds", "inputIds", "responseIds")}
    assert sets == {"turn": "t1", "historyIds": ["h0", "h1"], "inputIds": ["i1"], "responseIds": ["r1", "u1"]}
    assert page["messages"][2]["set"] == "input"
    # What was read can be sent as it is, also as text.
    again = await tools("add_messages", messages=json.dumps(page), thread_id="main", ids=True)
    assert {each["status"] for each in again["messages"]} == {"unchanged"}
    # The turn goes on, and the next one begins.
    await tools.add("main", {"id": "r2", "role": "tool", "content": [RESULT], "turn": "t1", "set": "response"})
    await tools.add("main", {"id": "i2", "role": "user", "content": "And now?", "turn": "t2", "set": "input"})
    page = await tools("get_messages", format="json", thread_id="main", turn="t1", limit=3)
    assert (page["historyIds"], page["inputIds"], page["responseIds"]) == ([], [], ["r1", "u1", "r2"])
    assert page["next"] == {"before": 4}
    newer = await tools("get_messages", format="json", thread_id="main", turn="t2")
    assert (len(newer["historyIds"]), newer["inputIds"], newer["responseIds"]) == (6, ["i2"], [])


async def test_a_list_without_the_name_of_its_turn_is_taken_and_comes_back(tools: Tools) -> None:
    of_agent = turn_list()
    del of_agent["turn"]
    await tools("add_messages", messages=of_agent, thread_id="main")
    # The list is sent again as the turn goes on, and belongs to the same turn.
    of_agent["messages"].append({"id": "r2", "role": "tool", "content": [RESULT]})
    of_agent["responseIds"].append("r2")
    await tools("add_messages", messages=json.dumps(of_agent), thread_id="main")
    marks = {each["id"]: (each.get("turn"), each.get("set")) for each in await tools.messages("main")}
    response = ("i1", "response")
    assert marks == {"h1": (None, None), "i1": ("i1", "input"), "r1": response, "u1": response, "r2": response}
    page = await tools("get_messages", format="json", thread_id="main", turn="i1")
    sets = [page[name] for name in ("historyIds", "inputIds", "responseIds")]
    assert sets == [["h1"], ["i1"], ["r1", "u1", "r2"]]


async def test_a_list_with_empty_sets_is_a_list_of_messages(tools: Tools) -> None:
    idle = {"messages": [{"role": "user", "content": "x"}], "historyIds": [], "inputIds": [], "responseIds": []}
    await tools("add_messages", messages=idle, thread_id="main")
    assert await tools.texts("main") == ["x"]
    nothing = {"messages": [], "historyIds": [], "inputIds": [], "responseIds": []}
    assert await tools("add_messages", messages=nothing, thread_id="main") == {"stored": 0, "seqs": ""}


async def test_a_mark_is_set_on_what_is_there_and_the_last_one_counts(tools: Tools) -> None:
    await tools.add("main", {"id": "a", "role": "user", "content": "x"})
    for turn, of in (("t1", "response"), ("t1", "input")):
        added = await tools.add("main", {"id": "a", "role": "user", "content": "x", "turn": turn, "set": of})
        assert added["messages"][0]["status"] == "unchanged"
    assert (await tools("get_messages", format="json", thread_id="main", turn="t1"))["inputIds"] == ["a"]
    await tools.add("main", {"id": "a", "role": "user", "content": "x", "turn": "t2", "set": "history"})
    assert (await tools("get_messages", format="json", thread_id="main", turn="t1"))["inputIds"] == ["a"]


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([{"role": "user", "content": "x", "turn": "t"}], "messages[0].set: null with a turn; allowed: history, input"),
        ([{"role": "user", "content": "x", "set": "input"}], "messages[0].turn: must be a string, not null"),
        (turn_list(inputId=[]), "messages: unknown key 'inputId'; allowed: messages, turn, historyIds"),
    ],
)
async def test_what_is_marked_wrongly_is_refused(tools: Tools, messages: object, error: str) -> None:
    assert error in await tools.refused("add_messages", messages=messages, thread_id="main")


async def test_an_unknown_turn_and_a_turn_with_a_place_are_refused(tools: Tools) -> None:
    await tools.say("main", "x")
    assert "no messages of a turn 't9'" in await tools.refused("get_messages", thread_id="main", turn="t9")
    assert "nothing else" in await tools.refused("get_messages", thread_id="main", turn="t9", before=3)
