"""What the Responses API, Gemini, the AI SDK and LangChain say in ways of their own, and what becomes of it."""

import pytest

from layerlore.memory.parts.message_shapes import IncomingMessage, parse_messages
from layerlore.memory.parts.parts import reasoning_part, text_part, tool_call_part, tool_result_part
from layerlore.memory.rules.validation import Limits
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json

LIMITS = Limits()


def read(message: Json) -> IncomingMessage:
    [found] = parse_messages([message], LIMITS)
    return found


def parts_of(message: Json) -> list[Json]:
    return read(message).parts


def test_an_item_of_the_responses_api_is_a_message_with_its_id():
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2Vj", "status": "completed"}
    found = read(thought)
    assert (found.id, found.role) == ("rs_1", "assistant")
    assert found.parts == [reasoning_part("", encrypted="c2Vj", item_id="rs_1", provider="openai")]
    assert parts_of({"type": "reasoning", "id": "rs_2", "summary": []})[0]["id"] == "rs_2"
    call = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "sh", "input": "ls -l"}
    assert read(call).parts == [tool_call_part("c1", "sh", {"_raw": "ls -l"})]
    output = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]
    answered = read({"type": "custom_tool_call_output", "call_id": "c1", "output": output})
    assert (answered.role, answered.parts[0]["result"][1]["type"]) == ("tool", "image")


@pytest.mark.parametrize(
    ("item", "name", "arguments", "result"),
    [
        (
            {"type": "web_search_call", "action": {"type": "search", "query": "tea"}, "status": "completed"},
            "web_search",
            {"action": {"type": "search", "query": "tea"}},
            "completed",
        ),
        (
            {"type": "mcp_call", "server_label": "maps", "name": "find", "arguments": '{"q":1}', "output": "here"},
            "mcp__maps__find",
            {"q": 1},
            "here",
        ),
        (
            {"type": "image_generation_call", "result": "AAAA", "status": "completed"},
            "image_generation",
            {},
            [{"type": "image", "data": "AAAA"}],
        ),
    ],
)
def test_a_tool_that_the_provider_runs_is_a_call_with_its_result(item, name, arguments, result):
    assert parts_of({"id": "x", **item}) == [tool_call_part("x", name, arguments), tool_result_part("x", None, result)]


def test_geminis_calls_without_ids_find_their_responses_by_name_and_order():
    call, answer = {"name": "look", "args": {"at": 1}}, {"name": "look", "response": {"output": "one"}}
    request = read({"role": "model", "parts": [{"functionCall": call}, {"function_call": {**call, "args": {"at": 2}}}]})
    told = read(
        {
            "role": "user",
            "parts": [{"functionResponse": answer}, {"functionResponse": {**answer, "response": {"error": "no"}}}],
        }
    )
    assert [part["id"] for part in request.parts] == ["function:look", "function:look:2"]
    assert told.role == "tool"
    assert told.parts == [
        tool_result_part("function:look", "look", "one"),
        tool_result_part("function:look:2", "look", "no", is_error=True),
    ]


def test_a_signature_of_geminis_is_a_thought_in_front_of_what_it_signs():
    thought = {"text": "hm", "thought": True}
    signed = {"functionCall": {"id": "c", "name": "look", "args": {}}, "thoughtSignature": "c2ln"}
    assert parts_of({"role": "model", "parts": [thought, signed]}) == [
        reasoning_part("hm", provider="google"),
        reasoning_part("", "c2ln", provider="google"),
        tool_call_part("c", "look", {}),
    ]


def test_base64_as_the_python_package_of_gemini_writes_it_is_read():
    blob = {"mime_type": "image/png", "data": "_-8", "display_name": None}
    assert parts_of({"parts": [{"text": None, "inline_data": blob}]}) == [
        {"type": "image", "data": "/+8=", "mime_type": "image/png"}
    ]


def test_a_call_of_seed_002_holds_its_result():
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "look", "input": {"q": 1}, "providerExecuted": False}
    resolved = {**call, "state": "resolved", "output": {"rows": 2}}
    rejected = {**call, "state": "rejected", "error": "no"}
    message = {"id": "m", "type": "llm", "role": "assistant", "createdAt": "2026-05-27T21:07:12Z"}
    made = read({**message, "content": [resolved]})
    assert (made.id, made.created_at) == ("m", 1779916032000)
    called = tool_call_part("c", "look", {"q": 1})
    assert made.parts == [called, tool_result_part("c", "look", {"rows": 2})]
    assert parts_of({**message, "content": [rejected]})[1] == tool_result_part("c", "look", "no", is_error=True)
    assert parts_of({**message, "content": [{**call, "state": "pending"}]}) == [called]
    result = {"type": "tool-result", "toolCallId": "c", "toolName": "look", "result": [1], "isError": False}
    assert parts_of({"role": "tool", "content": [result]}) == [tool_result_part("c", "look", [1])]


@pytest.mark.parametrize(
    ("output", "result", "failed"),
    [
        ({"type": "json", "value": None}, None, False),
        ({"type": "error-json", "value": {"code": 1}}, {"code": 1}, True),
        ({"type": "execution-denied", "reason": "not now"}, "not now", True),
        (
            {
                "type": "content",
                "value": [{"type": "text", "text": "a"}, {"type": "media", "data": "AAAA", "mediaType": "image/png"}],
            },
            [text_part("a"), {"type": "image", "data": "AAAA", "mime_type": "image/png"}],
            False,
        ),
    ],
)
def test_an_output_of_the_ai_sdk_is_a_result(output, result, failed):
    block = {"type": "tool-result", "toolCallId": "c", "toolName": "look", "output": output}
    assert parts_of({"role": "tool", "content": [block]}) == [tool_result_part("c", "look", result, is_error=failed)]


def test_a_ui_message_is_what_was_said_and_done_in_it():
    parts = [
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm", "state": "done", "providerMetadata": {"anthropic": {"signature": "c2ln"}}},
        {"type": "tool-look", "toolCallId": "c", "state": "output-available", "input": {"q": 1}, "output": [2]},
        {"type": "dynamic-tool", "toolName": "find", "toolCallId": "d", "state": "output-error", "errorText": "no"},
        {"type": "text", "text": "Here.", "state": "done"},
        {"type": "source-url", "sourceId": "s", "url": "https://example.com"},
    ]
    assert parts_of({"id": "m", "role": "assistant", "parts": parts, "metadata": {"a": 1}}) == [
        reasoning_part("hm", "c2ln"),
        tool_call_part("c", "look", {"q": 1}),
        tool_result_part("c", "look", [2]),
        tool_call_part("d", "find", {}),
        tool_result_part("d", "find", "no", is_error=True),
        text_part("Here."),
    ]


def test_a_call_of_langchain_is_one_call_wherever_it_stands():
    call = {"type": "tool_call", "id": "c", "name": "look", "args": {"q": 1}}
    used = {"type": "tool_use", "id": "c", "name": "look", "input": {"q": 1}}
    broken = {"type": "invalid_tool_call", "id": "d", "name": "look", "args": '{"q": ', "error": "no JSON"}
    message = {"type": "ai", "tool_calls": [call], "invalid_tool_calls": [broken]}
    expected = [tool_call_part("c", "look", {"q": 1}), tool_call_part("d", "look", {"_raw": '{"q": '})]
    assert parts_of({**message, "content": ""}) == expected
    assert parts_of({**message, "content": [used]}) == expected
    assert parts_of({**message, "content": [call]}) == expected
    failed = read({"type": "tool", "tool_call_id": "c", "name": "look", "content": "no", "status": "error"})
    assert failed.parts == [tool_result_part("c", "look", "no", is_error=True)]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"type": "item_reference", "id": "x"}, "messages[0].type: item_reference holds nothing that was said"),
        (
            {"type": "functon_call"},
            "messages[0].type: unknown type of message 'functon_call'; allowed: message, custom",
        ),
        ({"type": "function_call", "call_id": "c", "name": "n", "args": 1}, "messages[0]: unknown key 'args'"),
        (
            {"role": "model", "parts": [{"functionCall": {"args": {}}}]},
            "messages[0].parts[0].functionCall.name: must be",
        ),
        (
            {
                "role": "tool",
                "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "n", "output": {"type": "txt"}}],
            },
            "messages[0].content[0].output.type: unknown type of output 'txt'; allowed: text, json",
        ),
    ],
)
def test_an_error_names_the_place(message, error):
    with pytest.raises(InvalidInput) as caught:
        parse_messages([message], LIMITS)
    assert str(caught.value).startswith(error)
