"""A tool call and its result: whatever is deleted, added or replaced, no half is shown alone."""

import pytest

from ...server.tools.calling import Json, Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]


def call(id_: str, city: str, **extra: str) -> Json:
    arguments = f'{{"city": "{city}"}}'
    function = {"name": "weather", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": id_, "type": "function", "function": function}], **extra}


def result(id_: str, text: str, **extra: str) -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": text, **extra}


async def test_a_result_of_a_deleted_call_is_refused_until_the_delete_is_undone(tools: Tools) -> None:
    await tools.add("main", {"role": "user", "content": "weather?"}, call("c1", "Graz", id="a1"))
    await tools("delete_messages", which="ids", ids=["a1"], thread_id="main")
    refusal = await tools.refused("add_messages", messages=[result("c1", "rain")], thread_id="main")
    assert "other half is deleted (c1)" in refusal
    assert [message["role"] for message in await tools.messages("main")] == ["user"]
    assert (await tools.page("main"))["total"] == 1


async def test_an_unrelated_delete_takes_nothing_else_along(tools: Tools) -> None:
    await tools.add(
        "main",
        call("c1", "Graz", id="a1"),
        result("c1", "rain", id="t1"),
        {"role": "user", "content": "thanks", "id": "u1"},
    )
    await tools("delete_messages", which="ids", ids=["t1"], thread_id="main")
    await tools.say("main", "one", "two")
    answer = await tools("delete_messages", which="ids", ids=["u1"], thread_id="main")
    assert answer["ids"] == ["u1"]


async def test_a_message_with_a_hidden_call_can_be_sent_again_as_it_was_read_and_is_not_found_by_the_call(
    tools: Tools,
) -> None:
    await tools.add("main", call("c1", "Zanzibar", id="a1", content="let me look"), result("c1", "hot", id="t1"))
    await tools("delete_messages", which="ids", ids=["t1"], thread_id="main")
    (shown,) = await tools.messages("main")
    assert shown["parts"] == [{"type": "text", "text": "let me look"}]
    assert (await tools.add("main", shown))["messages"][0]["status"] == "unchanged"
    replaced = call("c1", "Zanzibar", id="a1", content="let me see")
    assert (await tools.add("main", replaced, replace=True))["messages"][0]["status"] == "replaced"
    assert (await tools.messages("main"))[0]["parts"] == [{"type": "text", "text": "let me see"}]
    assert await tools.found("Zanzibar") == []
    assert await tools.found("let me see") == ["let me see"]


async def test_metadata_alone_can_be_replaced(tools: Tools) -> None:
    await tools.add("main", {"role": "user", "content": "hello", "id": "m", "metadata": {"k": 1}})
    same = {"role": "user", "content": "hello", "id": "m", "metadata": {"k": 2}}
    assert (await tools.add("main", same))["messages"][0]["status"] == "unchanged"
    assert (await tools.add("main", same, replace=True))["messages"][0]["status"] == "replaced"
    assert (await tools.messages("main"))[0]["metadata"] == {"k": 2}
