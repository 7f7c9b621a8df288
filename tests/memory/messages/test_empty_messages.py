"""Messages that say nothing, as programs send them with every turn: the rest is stored."""

import json

import pytest

from ...server.tools.calling import Tools

pytestmark = pytest.mark.anyio

HUMAN = ["langchain", "schema", "messages", "HumanMessage"]
NOTHING = {
    "no content": {"role": "user"},
    "an empty text": {"role": "assistant", "content": ""},
    "null": {"role": "assistant", "content": None},
    "no parts": {"role": "user", "parts": []},
    "an empty text part": {"role": "user", "parts": [{"type": "text", "text": ""}]},
    "a part whose text is null": {"role": "user", "content": [{"type": "text", "text": None}]},
    "a part that is null": {"role": "user", "content": [None, ""]},
    "empty ids": {"role": "assistant", "content": "", "id": "", "name": "", "created_at": ""},
    "an empty object": {},
    "nothing": None,
    "an empty string": "",
    "a heading": {"id": "m9", "role": "user", "content": "", "metadata": {"k": 1}, "created_at": 1_760_000_000},
    "empty custom data": {"role": "custom", "data": None},
    "OpenAI: an answer": {"role": "assistant", "content": None, "tool_calls": [], "refusal": None},
    "OpenAI: no calls": {"role": "assistant", "content": "", "tool_calls": None, "function_call": None, "audio": None},
    "OpenAI: a refusal": {"role": "assistant", "content": [{"type": "refusal", "refusal": ""}]},
    "OpenAI: a tool's answer": {"role": "tool", "content": ""},
    "OpenAI: reasoning": {"role": "assistant", "content": "", "reasoning_content": ""},
    "Anthropic: no blocks": {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"},
    "Anthropic: an empty thought": {"role": "assistant", "content": [{"type": "thinking", "thinking": ""}]},
    "Responses: no content": {"type": "message", "role": "user", "content": []},
    "Responses: an empty text": {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "", "annotations": []}],
        "status": "completed",
    },
    "Responses: empty reasoning": {"type": "reasoning", "summary": [{"type": "summary_text", "text": ""}]},
    "Gemini: no parts": {"role": "model", "parts": []},
    "Gemini: no role": {"parts": []},
    "Gemini: nothing": {"role": "model"},
    "Gemini: an empty text": {"role": "model", "parts": [{"text": ""}]},
    "Gemini: null": {"parts": [{"text": None}]},
    "AI SDK: no parts": {"id": "u1", "role": "assistant", "parts": [], "metadata": {}},
    "AI SDK: where a step starts": {"id": "u2", "role": "assistant", "parts": [{"type": "step-start"}]},
    "AI SDK: an empty text": {
        "role": "assistant",
        "content": "",
        "parts": [{"type": "text", "text": "", "state": "done"}],
    },
    "LangChain: an empty text": {"type": "human", "content": ""},
    "LangChain: no blocks": {"type": "ai", "content": [], "tool_calls": [], "invalid_tool_calls": []},
    "LangChain: as stored": {"type": "ai", "data": {"content": "", "type": "ai"}},
    "LangChain: serialised": {"lc": 1, "type": "constructor", "id": HUMAN, "kwargs": {"content": ""}},
}


@pytest.mark.parametrize("nothing", NOTHING.values(), ids=NOTHING)
async def test_a_message_that_says_nothing_is_named_and_the_rest_is_stored(tools: Tools, nothing: object) -> None:
    answer = await tools.add("main", {"role": "user", "content": "hello"}, nothing, {"role": "user", "content": "bye"})
    assert answer["skipped"] == [{"index": 1, "reason": "empty"}]
    assert [each["seq"] for each in answer["messages"]] == [1, 2]
    assert await tools.texts("main") == ["hello", "bye"]


async def test_a_call_in_which_nothing_is_said_stores_nothing_and_is_no_error(tools: Tools) -> None:
    for messages in (list(NOTHING.values()), json.dumps(list(NOTHING.values()))):
        answer = await tools("add_messages", messages=messages, thread_id="main", ids=True)
        assert answer["messages"] == []
        assert [each["index"] for each in answer["skipped"]] == list(range(len(NOTHING)))
        assert answer["totals"] == {"messages": 0, "tokens": 0}
    for empty in ([], "[]", {}):
        answer = await tools("add_messages", messages=empty, thread_id="main", ids=True)
        assert (answer["messages"], answer["totals"]["messages"]) == ([], 0)
    assert (await tools("list_threads"))["threads"] == []
    await tools.say("main", "hello")
    assert (await tools.add("main", {"role": "assistant", "content": ""}))["totals"]["messages"] == 1


@pytest.mark.parametrize(
    "said",
    [
        {"role": "tool", "tool_call_id": "c1", "content": ""},
        {"role": "function", "name": "look", "content": ""},
        {"type": "function_call_output", "call_id": "c1", "output": ""},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"role": "user", "content": " "},
    ],
)
async def test_what_says_something_by_being_there_is_stored(tools: Tools, said: object) -> None:
    answer = await tools.add("main", said)
    assert "skipped" not in answer
    assert answer["totals"]["messages"] == 1


async def test_a_mistake_beside_an_empty_message_is_still_refused(tools: Tools) -> None:
    sent = [{"role": "assistant", "content": ""}, {"role": "user", "contents": "hi"}]
    error = await tools.refused("add_messages", messages=sent, thread_id="main")
    assert "messages[1]: unknown key 'contents'" in error
