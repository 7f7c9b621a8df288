"""A context as Responses items, Gemini's contents and the AI SDK's messages: held against the types that are published,
and against what those do not say."""

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published_shapes import AI_SDK_REQUEST, GEMINI_REQUEST
from told_threads import (
    ANY_THREAD,
    PDF,
    PNG,
    USER_MESSAGE,
    checked_against,
    complete_until,
    message,
    what_is_said,
    whole_threads,
)

from layerlore.memory.parts.message_shapes import parse_messages
from layerlore.memory.parts.parts import reasoning_part, text_part, tool_call_part, tool_result_part
from layerlore.memory.rules.validation import Limits
from layerlore.memory.shapes.exchanges import BEGAN_EARLIER, ContextLayout
from layerlore.memory.shapes.openai import render_openai, render_responses
from layerlore.memory.shapes.provider_messages import render_ai_sdk, render_anthropic, render_gemini
from layerlore.storage.core.records import Json

BLOCKS = st.lists(st.sampled_from(["<memory>\nx\n</memory>", "<plan>\ny\n</plan>"]), max_size=2).map(tuple)
LAYOUTS = st.builds(
    lambda predefined, stable, before, volatile, question, after: ContextLayout(
        tuple(predefined), stable, tuple(before), volatile, (question, *after) if question else (), volatile
    ),
    ANY_THREAD,
    BLOCKS,
    ANY_THREAD,
    BLOCKS,
    st.none() | USER_MESSAGE,
    ANY_THREAD,
)


def item_list() -> object:
    from openai.types.responses import ResponseInputParam

    return ResponseInputParam


check_items = checked_against(item_list)
gemini_schema = jsonschema.Draft202012Validator(GEMINI_REQUEST)
ai_sdk_schema = jsonschema.Draft202012Validator(AI_SDK_REQUEST)


@settings(deadline=None)
@given(LAYOUTS)
def test_the_responses_api_takes_whatever_is_stored(laid):
    items = render_responses(laid)
    check_items(items)
    waiting: list[str] = []
    seen: set[str] = set()
    for at, item in enumerate(items):
        match item["type"]:
            case "function_call":
                assert item["call_id"] not in seen
                assert 1 <= len(item["call_id"]) <= 64
                waiting.append(item["call_id"])
                seen.add(item["call_id"])
            case "function_call_output":
                assert waiting.pop(0) == item["call_id"]
            case "reasoning":
                following = items[at + 1]
                assert following["type"] in ("reasoning", "function_call") or following["role"] == "assistant"
            case _:
                assert waiting == []
                assert item["content"]
                assert isinstance(item["content"], str) or item["role"] == "user" or item["role"] == "system"
    assert waiting == []


@settings(deadline=None)
@given(LAYOUTS)
def test_gemini_takes_whatever_is_stored(laid):
    made = render_gemini(laid)
    gemini_schema.validate(made)
    calls: list[tuple[str, str]] = []
    for at, content in enumerate(made["contents"]):
        answered = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        assert [(each["id"], each["name"]) for each in answered] == calls
        called = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        calls = [(each["id"], each["name"]) for each in called]
        assert at or content["role"] == "user"
        if at and content["role"] == "model":
            assert made["contents"][at - 1]["role"] == "user"
    assert calls == []


@settings(deadline=None)
@given(LAYOUTS)
def test_the_ai_sdk_takes_whatever_is_stored(laid):
    made = render_ai_sdk(laid)
    ai_sdk_schema.validate(made)
    calls: list[tuple[str, str]] = []
    for at, one in enumerate(made["messages"]):
        content = one["content"] if isinstance(one["content"], list) else []
        answered = [part for part in content if part["type"] == "tool-result"]
        assert [(each["toolCallId"], each["toolName"]) for each in answered] == calls
        called = [part for part in content if part["type"] == "tool-call"]
        calls = [(each["toolCallId"], each["toolName"]) for each in called]
        assert at or one["role"] == "user"
        assert content or one["content"].strip()
    assert calls == []


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        (gemini_schema, {"contents": [{"role": "user", "parts": [{"text": ""}]}]}),
        (gemini_schema, {"contents": [{"role": "user", "parts": [{"text": "a"}, {"functionResponse": {}}]}]}),
        (gemini_schema, {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "a", "args": {}}}]}]}),
        (ai_sdk_schema, {"messages": [{"role": "system", "content": "a"}]}),
        (ai_sdk_schema, {"messages": [{"role": "tool", "content": [{"type": "text", "text": "a"}]}]}),
    ],
)
def test_the_schemas_refuse_what_the_types_do(schema, wrong):
    assert not schema.is_valid(wrong)


def items_of(messages) -> list[Json]:
    return render_responses(ContextLayout(before=tuple(messages)))


def contents_of(messages) -> list[Json]:
    """Contents taken apart, since a later one may be joined to the last."""
    contents = render_gemini(ContextLayout(before=tuple(messages)))["contents"]
    return [{"role": one["role"], "part": part} for one in contents for part in one["parts"]]


def messages_of(messages) -> list[Json]:
    return render_ai_sdk(ContextLayout(before=tuple(messages)))["messages"]


@pytest.mark.parametrize("render", [items_of, contents_of, messages_of])
@settings(deadline=None, max_examples=50)
@given(messages=ANY_THREAD)
def test_messages_stay_as_they_are_whatever_comes_after_them(render, messages):
    whole = render(messages)
    for length in complete_until(messages):
        beginning = render(messages[:length])
        assert whole[: len(beginning)] == beginning


@settings(deadline=None, max_examples=50)
@given(whole_threads())
def test_what_is_given_can_be_stored_again_and_says_the_same(messages):
    laid = ContextLayout(before=(message("user", "Hi"), *messages))
    assert what_is_said(parse_messages(render_responses(laid), Limits())) == what_is_said(list(laid.before))
    # The others have no place for systems within a conversation.
    spoken = ContextLayout(before=tuple(one for one in laid.before if one.role != "system"))
    expected = what_is_said(list(spoken.before))
    assert what_is_said(parse_messages(render_gemini(spoken)["contents"], Limits())) == expected
    assert what_is_said(parse_messages(render_ai_sdk(spoken)["messages"], Limits())) == expected


CALL = tool_call_part("c1", "look", {"q": "ä"})
TURN = (
    message("user", "Find it"),
    message("assistant", "Looking.", CALL),
    message("tool", tool_result_part("c1", None, {"rows": [1]})),
)
LAID = ContextLayout(
    predefined=(message("system", "Be kind."),),
    stable=("<user-profile>",),
    before=TURN,
    volatile=("<plan>",),
    turn=(message("user", "Two?"),),
)


def test_each_shape_has_the_blocks_in_their_places():
    assert render_responses(LAID) == [
        {"type": "message", "role": "system", "content": "Be kind."},
        {"type": "message", "role": "system", "content": "<user-profile>"},
        {"type": "message", "role": "user", "content": "Find it"},
        {"type": "message", "role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"q":"ä"}'},
        {"type": "function_call_output", "call_id": "c1", "output": '{"rows":[1]}'},
        {"type": "message", "role": "user", "content": "<plan>\n\nTwo?"},
    ]
    assert render_gemini(LAID) == {
        "systemInstruction": {"parts": [{"text": "Be kind."}, {"text": "<user-profile>"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Find it"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Looking."},
                    {"functionCall": {"id": "c1", "name": "look", "args": {"q": "ä"}}},
                ],
            },
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "look", "response": {"rows": [1]}}}]},
            {"role": "user", "parts": [{"text": "<plan>"}, {"text": "Two?"}]},
        ],
    }
    assert render_ai_sdk(LAID) == {
        "system": "Be kind.\n\n<user-profile>",
        "messages": [
            {"role": "user", "content": "Find it"},
            {
                "role": "assistant",
                "content": [
                    text_part("Looking."),
                    {"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": {"q": "ä"}},
                ],
            },
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "c1",
                        "toolName": "look",
                        "output": {"type": "json", "value": {"rows": [1]}},
                    }
                ],
            },
            {"role": "user", "content": "<plan>\n\nTwo?"},
        ],
    }


def test_in_the_middle_of_a_turn_what_changes_often_comes_last():
    laid = ContextLayout(volatile=("<plan>",), turn=TURN)
    assert render_responses(laid)[-1] == {"type": "message", "role": "user", "content": "<plan>"}
    assert render_gemini(laid)["contents"][-1] == {"role": "user", "parts": [{"text": "<plan>"}]}
    assert render_ai_sdk(laid)["messages"][-1] == {"role": "user", "content": "<plan>"}


def test_what_is_recalled_stands_in_front_of_the_newest_user_message_through_its_turn():
    for turn in (TURN[:1], TURN):
        laid = ContextLayout(volatile=("<plan>",), turn=turn, recalled=("<memory>",))
        responses, gemini, ai_sdk = render_responses(laid)[0], render_gemini(laid), render_ai_sdk(laid)
        assert responses["content"].startswith("<memory>\n\n")
        assert gemini["contents"][0]["parts"][0] == {"text": "<memory>"}
        assert ai_sdk["messages"][0]["content"].startswith("<memory>\n\n")
        for made in (
            responses["content"],
            ai_sdk["messages"][0]["content"],
            gemini["contents"][0]["parts"][-1]["text"],
        ):
            assert made.endswith("Find it")


def test_without_a_user_what_is_recalled_comes_last():
    laid = ContextLayout(before=(message("assistant", "Hello"),), recalled=("<memory>",))
    assert render_responses(laid)[-1]["content"] == "<memory>"
    assert render_gemini(laid)["contents"][-1] == {"role": "user", "parts": [{"text": "<memory>"}]}
    assert render_ai_sdk(laid)["messages"][-1] == {"role": "user", "content": "<memory>"}


def test_a_thread_that_begins_with_an_answer_is_said_to_have_begun_earlier():
    laid = ContextLayout(before=TURN[1:])
    assert render_gemini(laid)["contents"][0] == {"role": "user", "parts": [{"text": BEGAN_EARLIER}]}
    assert render_ai_sdk(laid)["messages"][0] == {"role": "user", "content": BEGAN_EARLIER}


def test_a_failure_is_one_in_each_shape():
    failed = (TURN[0], TURN[1], message("tool", tool_result_part("c1", None, "gone", is_error=True)))
    laid = ContextLayout(before=failed)
    assert render_responses(laid)[-1]["output"] == "Error: gone"
    [answer] = render_gemini(laid)["contents"][-1]["parts"]
    assert answer["functionResponse"]["response"] == {"error": "Error: gone"}
    [answer] = render_ai_sdk(laid)["messages"][-1]["content"]
    assert answer["output"] == {"type": "error-text", "value": "Error: gone"}


THOUGHTS = {
    "openai": reasoning_part("hm", encrypted="c2Vj", item_id="rs_1", provider="openai"),
    "google": reasoning_part("", "c2ln", provider="google"),
    "anthropic": reasoning_part("hm", "c2ln"),
}


@pytest.mark.parametrize("provider", THOUGHTS)
def test_a_thought_is_given_back_to_the_provider_that_it_is_from_and_to_no_other(provider):
    thinking = message("assistant", THOUGHTS[provider], CALL)
    laid = ContextLayout(before=(TURN[0], thinking, TURN[2]))
    items = [item for item in render_responses(laid) if item["type"] == "reasoning"]
    summary = [{"type": "summary_text", "text": "hm"}]
    expected = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2Vj"}
    assert items == ([expected] if provider == "openai" else [])
    [called] = render_gemini(laid)["contents"][1]["parts"]
    assert called.get("thoughtSignature") == ("c2ln" if provider == "google" else None)
    blocks = render_anthropic(laid)["messages"][1]["content"]
    assert [block["type"] for block in blocks] == [*(["thinking"] if provider == "anthropic" else []), "tool_use"]
    *thoughts, used = render_ai_sdk(laid)["messages"][1]["content"]
    options = {
        "openai": {"itemId": "rs_1", "reasoningEncryptedContent": "c2Vj"},
        "google": {"thoughtSignature": "c2ln"},
        "anthropic": {"signature": "c2ln"},
    }
    carrying = used if provider == "google" else thoughts[0]
    assert carrying["providerOptions"] == {provider: options[provider]}
    assert parse_messages(render_ai_sdk(laid)["messages"], Limits())[1].parts == [THOUGHTS[provider], CALL]


def test_a_user_shows_images_and_files():
    shown = message("user", {"type": "image", "data": PNG}, {"type": "file", "data": PDF, "file_name": "a.pdf"})
    laid = ContextLayout(before=(shown,))
    assert render_responses(laid)[0]["content"] == [
        {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"},
    ]
    assert render_gemini(laid)["contents"][0]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"inlineData": {"mimeType": "application/pdf", "data": PDF}},
    ]
    assert render_ai_sdk(laid)["messages"][0]["content"] == [
        {"type": "file", "data": PNG, "mediaType": "image/png"},
        {"type": "file", "data": PDF, "mediaType": "application/pdf", "filename": "a.pdf"},
    ]


RENDERERS = pytest.mark.parametrize(
    "render",
    [render_openai, render_responses, render_anthropic, render_gemini, render_ai_sdk],
    ids=lambda each: each.__name__,
)
BIKE = {"type": "image", "data": PNG, "caption": "a red\nbicycle"}


@RENDERERS
def test_the_caption_of_an_image_is_a_text_beside_it(render):
    bare = {key: value for key, value in BIKE.items() if key != "caption"}
    spoken = (
        message("user", text_part("[image: a red bicycle]"), bare),
        message("assistant", "[image: a red bicycle]"),
    )
    shown = (message("user", BIKE), message("assistant", BIKE))
    assert render(ContextLayout(before=shown)) == render(ContextLayout(before=spoken))


@RENDERERS
def test_an_image_of_a_caption_alone_is_that_text(render):
    alone = {"type": "image", "caption": "a red bicycle"}
    answers = [tool_result_part("c1", None, [part]) for part in (alone, text_part("[image: a red bicycle]"))]
    shown, spoken = (ContextLayout(before=(*TURN[:2], message("tool", answer))) for answer in answers)
    assert render(shown) == render(spoken)


def test_a_tool_shows_an_image_where_the_api_has_a_place_for_it_and_else_a_note():
    answer = tool_result_part("c1", None, [text_part("here"), {"type": "image", "data": PNG}])
    laid = ContextLayout(before=(*TURN[:2], message("tool", answer)))
    assert [block["type"] for block in render_responses(laid)[-1]["output"]] == ["input_text", "input_image"]
    [told] = render_gemini(laid)["contents"][-1]["parts"]
    assert told["functionResponse"]["response"] == {"output": "here\n[image]"}
    [told] = render_ai_sdk(laid)["messages"][-1]["content"]
    assert told["output"] == {"type": "text", "value": "here\n[image]"}
