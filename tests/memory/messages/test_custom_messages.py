"""Messages of a user interface (seed 002), and what models are shown of a tool's result."""

import pytest

from ...server.tools.calling import Json, Tools

pytestmark = pytest.mark.anyio

CARD = {"kind": "weather-card", "place": "Zanzibar", "celsius": 31}
FORMATS = ("text", "openai", "responses", "anthropic", "gemini", "ai-sdk", "json")


def custom(id_: str = "card") -> Json:
    return {"type": "custom", "id": id_, "data": CARD, "createdAt": "2026-05-27T21:07:12Z"}


@pytest.mark.databases
async def test_a_custom_message_is_stored_and_paged_and_shown_to_no_model(tools: Tools) -> None:
    added = await tools.add(
        "main",
        {"role": "user", "content": "How warm is it there?"},
        custom(),
        {"role": "assistant", "content": "It is warm."},
    )
    assert added["totals"]["messages"] == 2
    page = await tools("get_messages", format="json", thread_id="main")
    assert [message["role"] for message in page["messages"]] == ["user", "custom", "assistant"]
    assert page["total"] == 3
    kept = page["messages"][1]
    assert (kept["seq"], kept["parts"], kept["tokens"]) == (2, [{"type": "custom", "data": CARD}], 0)
    assert (await tools.add("main", kept))["messages"] == [{"id": "card", "seq": 2, "status": "unchanged"}]
    shown = await tools("get_messages", format="json", thread_id="main", detail="low", roles=["custom"])
    assert shown["total"] == 1
    assert "Zanzibar" in shown["messages"][0]["text"]
    assert (await tools("get_messages", format="json", thread_id="main", roles=["user", "assistant"]))["total"] == 2
    for form in FORMATS:
        told = await tools("get_context", thread_id="main", query="Zanzibar weather-card", format=form)
        assert "Zanzibar" not in str(told).replace("query", ""), form
    context = await tools("get_context", thread_id="main", format="json")
    assert context["report"].get("left_out", []) == []
    assert "Zanzibar" not in await tools("recall_memory", query="weather-card in which place, celsius")
    assert "custom" in await tools.refused("get_messages", thread_id="main", roles=["customs"])


@pytest.mark.databases
async def test_custom_messages_go_and_come_back_with_the_turn_that_they_are_in(tools: Tools) -> None:
    for text in ("one", "two", "three"):
        await tools.say("main", text)
    await tools.add("main", custom())
    deleted = await tools("delete_messages", which="last_turn", thread_id="main")
    assert deleted["totals"]["messages"] == 2
    assert "card" in deleted["ids"]
    assert (await tools("get_messages", format="json", thread_id="main"))["total"] == 2
    await tools("undo", undo_id=deleted["undo"])
    (thread,) = (await tools("list_threads", thread_id="main"))["threads"]
    assert thread["messages"] == 3
    assert (await tools("get_messages", format="json", thread_id="main"))["total"] == 4
    await tools("delete_messages", which="ids", ids=["card"], thread_id="main")
    page = await tools("get_messages", format="json", thread_id="main")
    assert (page["total"], [message["role"] for message in page["messages"]]) == (3, ["user"] * 3)


async def test_what_a_provider_keeps_for_itself_is_a_custom_message(tools: Tools) -> None:
    opaque = {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VjcmV0"}
    await tools.add("main", {"role": "user", "content": "Hi"}, opaque)
    [kept] = (await tools("get_messages", format="json", thread_id="main", roles=["custom"]))["messages"]
    assert (kept["id"], kept["parts"][0]["data"]) == ("cmp_1", opaque)


async def test_a_message_stays_custom_or_not(tools: Tools) -> None:
    await tools.add("main", custom())
    error = await tools.refused(
        "add_messages",
        messages=[{"role": "user", "id": "card", "content": "x"}],
        thread_id="main",
        replace=True,
    )
    assert "use another id" in error
    nothing = {"type": "custom"}
    assert (await tools.add("main", nothing))["skipped"] == [{"index": 0, "reason": "empty"}]
    holding = {"role": "custom", "parts": [nothing]}
    assert "data: is missing" in await tools.refused("add_messages", messages=[holding], thread_id="main")


RAW = {"rows": [{"city": "Lisbon", "ledger": "quokka 4711"}], "total": 1}
CALL = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {}}
RESULTS = {
    "ours": {
        "role": "tool",
        "parts": [{"type": "tool_result", "tool_call_id": "c1", "result": RAW, "model_output": "one row, in Lisbon"}],
    },
    "ai-sdk": {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "c1",
                "toolName": "look",
                "result": RAW,
                "output": {"type": "text", "value": "one row, in Lisbon"},
            }
        ],
    },
    "langchain": {"type": "tool", "tool_call_id": "c1", "content": "one row, in Lisbon", "artifact": RAW},
}


@pytest.mark.parametrize("shape", RESULTS)
async def test_a_model_sees_of_a_result_what_is_for_it(tools: Tools, shape: str) -> None:
    await tools.add(
        "main", {"role": "user", "content": "Where?"}, {"role": "assistant", "parts": [CALL]}, RESULTS[shape]
    )
    kept = (await tools("get_messages", format="json", thread_id="main"))["messages"][-1]
    [part] = kept["parts"]
    assert (part["result"], part["model_output"]) == (RAW, "one row, in Lisbon")
    assert (await tools.add("main", kept))["messages"][0]["status"] == "unchanged"
    for form in FORMATS:
        told = str(await tools("get_context", thread_id="main", format=form))
        assert "one row, in Lisbon" in told, form
        assert "quokka" not in told, form
    assert "Lisbon" in await tools("recall_memory", query="which row is in Lisbon")
    assert "quokka" not in await tools("recall_memory", query="quokka 4711")
    low = (await tools("get_messages", format="json", thread_id="main", detail="low"))["messages"][-1]
    assert "one row" in low["text"]
