"""A context as OpenAI's API takes it: checked against the openai package's types, and against what they do not say."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from told_threads import (
    ANY_THREAD,
    PDF,
    PNG,
    USER_MESSAGE,
    WEBP,
    checked_against,
    complete_until,
    message,
    what_is_said,
    whole_threads,
)

from layerlore.memory.parts.message_shapes import parse_messages
from layerlore.memory.parts.parts import (
    MediaSource,
    image_part,
    reasoning_part,
    text_part,
    tool_call_part,
    tool_result_part,
)
from layerlore.memory.rules.validation import Limits
from layerlore.memory.shapes.exchanges import ContextLayout
from layerlore.memory.shapes.openai import render_openai
from layerlore.storage.core.records import Json

BLOCKS = st.lists(st.sampled_from(["<memory>\nx\n</memory>", "<plan>\ny\n</plan>"]), max_size=2).map(tuple)


def message_list() -> object:
    from openai.types.chat import ChatCompletionMessageParam

    return list[ChatCompletionMessageParam]


check_types = checked_against(message_list)


def check(messages: list[Json]) -> None:
    """Whether the API would take them."""
    check_types(messages)
    waiting: list[str] = []
    seen: set[str] = set()
    for one in messages:
        content = one["content"]
        if one["role"] == "tool":
            assert waiting.pop(0) == one["tool_call_id"]
            assert content or content == ""
            continue
        assert waiting == []
        assert content or (content is None and one["tool_calls"])
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one.get("name", "x"))
        for call in one.get("tool_calls", []):
            assert one["role"] == "assistant"
            assert 1 <= len(call["id"]) <= 40
            assert call["id"] not in seen
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
            seen.add(call["id"])
            waiting.append(call["id"])
        for block in content if isinstance(content, list) else []:
            assert block["type"] == "text" or one["role"] == "user"
            assert block.get("text") != ""
    assert waiting == []


@settings(deadline=None)
@given(ANY_THREAD, BLOCKS, ANY_THREAD, BLOCKS, st.none() | USER_MESSAGE, ANY_THREAD)
def test_the_api_takes_whatever_is_stored(predefined, stable, before, volatile, question, after):
    turn = (question, *after) if question else ()
    check(render_openai(ContextLayout(tuple(predefined), stable, tuple(before), volatile, turn, volatile)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": "x", "unknown": 1},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "n"}}]},
    ],
)
def test_the_types_are_checked_to_the_innermost_block(wrong):
    with pytest.raises(ValidationError):
        check_types([wrong])


@settings(deadline=None)
@given(ANY_THREAD)
def test_messages_stay_as_they_are_whatever_comes_after_them(messages):
    whole = render_openai(ContextLayout(before=tuple(messages)))
    for length in complete_until(messages):
        beginning = render_openai(ContextLayout(before=tuple(messages[:length])))
        assert whole[: len(beginning)] == beginning


@settings(deadline=None)
@given(whole_threads())
def test_what_is_given_can_be_stored_again_and_says_the_same(messages):
    messages = [message("user", "Hi"), *messages]
    given_back = parse_messages(render_openai(ContextLayout(before=tuple(messages))), Limits())
    assert what_is_said(given_back) == what_is_said(messages)


def test_what_changes_often_stands_in_front_of_the_last_question():
    laid = ContextLayout(
        predefined=(message("system", "Be kind."), message("user", "Hi"), message("assistant", "Hello")),
        stable=("<user-profile>", "<observations>"),
        before=(message("user", "One?"), message("assistant", "1")),
        volatile=("<plan>", "<memory>"),
        turn=(message("user", "Two?"),),
    )
    assert render_openai(laid) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "system", "content": "<user-profile>\n\n<observations>"},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "<plan>\n\n<memory>\n\nTwo?"},
    ]


def test_in_front_of_a_question_with_an_image_it_is_a_block_of_its_own():
    image = image_part(MediaSource(encoded=PNG), "image")
    [request] = render_openai(ContextLayout(volatile=("<plan>",), turn=(message("user", image, "What is it?"),)))
    assert request["content"] == [
        text_part("<plan>"),
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        text_part("What is it?"),
    ]


@pytest.mark.parametrize("turn", [(), (message("user", "Go"), message("assistant", "Going"))])
def test_in_the_middle_of_a_turn_and_without_one_what_changes_often_comes_last(turn):
    messages = render_openai(ContextLayout(before=(message("user", "Hi"),), volatile=("<plan>",), turn=turn))
    assert len(messages) == len(turn) + 2
    assert messages[-1] == {"role": "user", "content": "<plan>"}


def test_a_user_message_without_anything_to_say_is_no_question():
    laid = ContextLayout(
        before=(message("user", "Hi"),), volatile=("<plan>",), turn=(message("user", reasoning_part("hm")),)
    )
    assert [one["content"] for one in render_openai(laid)] == ["Hi", "<plan>"]


CALL = tool_call_part("c1", "look", {"q": "ä"})


def asking(*parts: Json | str, name: str | None = None) -> list[Json]:
    return render_openai(ContextLayout(before=(message("assistant", *parts, name=name),)))


def test_a_result_moves_up_to_its_call_and_what_stood_between_comes_after():
    thread = (
        message("assistant", "Looking.", CALL, tool_call_part("c2", "read", {})),
        message("user", "Hurry"),
        message("tool", tool_result_part("c2", None, "two")),
        message("tool", tool_result_part("c1", None, {"rows": ["ä"]})),
    )
    assert render_openai(ContextLayout(before=thread)) == [
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q":"ä"}'}},
                {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"rows":["ä"]}'},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "user", "content": "Hurry"},
    ]


def test_a_result_that_belongs_to_a_call_before_the_turn_leaves_the_question_last():
    result = message("tool", tool_result_part("c1", None, "found"))
    laid = ContextLayout(
        before=(message("assistant", CALL),), volatile=("<plan>",), turn=(message("user", "Well?"), result)
    )
    assert [one["role"] for one in render_openai(laid)] == ["assistant", "tool", "user"]
    assert render_openai(laid)[-1]["content"] == "<plan>\n\nWell?"


def test_one_message_with_calls_and_results_is_taken_apart():
    messages = asking("a", CALL, tool_result_part("c1", None, "b"), "c")
    assert [(one["role"], one["content"]) for one in messages] == [
        ("assistant", "a"),
        ("tool", "b"),
        ("assistant", "c"),
    ]


def test_half_of_a_pair_becomes_a_text():
    assert asking(CALL) == [{"role": "assistant", "content": '[tool call look({"q":"ä"})]'}]
    alone = render_openai(ContextLayout(before=(message("tool", tool_result_part("c1", "look", "found")),)))
    assert alone == [{"role": "user", "content": "[tool result look: found]"}]


def test_the_second_result_of_a_call_becomes_a_text():
    messages = asking(CALL, tool_result_part("c1", None, "one"), tool_result_part("c1", None, "two"))
    assert [one["role"] for one in messages] == ["assistant", "tool", "assistant"]
    assert messages[2]["content"] == "[tool result: two]"


def ids_and_names(*calls: tuple[str, str]) -> list[tuple[str, str]]:
    parts = [part for i, n in calls for part in (tool_call_part(i, n, {}), tool_result_part(i, None, "x"))]
    made = [call for one in asking(*parts) for call in one.get("tool_calls", [])]
    return [(call["id"], call["function"]["name"]) for call in made]


def test_ids_that_are_too_long_and_names_that_are_refused_are_replaced_and_stay_apart():
    long = "x" * 41
    made = ids_and_names((long, "a.b"), (long + "y", "a_b"), ("function:look", "a b"), ("c", "n" * 65), ("d", "n" * 66))
    assert made[1][1] == "a_b"
    assert made[2][0] == "function:look"
    assert len({call_id for call_id, _ in made}) == len({name for _, name in made}) == 5
    assert all(name.startswith(("a_b", "n" * 50)) and len(name) <= 64 for _, name in made)


def test_an_id_that_comes_again_is_given_once():
    replaced = ids_and_names(("c1", "n"), ("c1", "n"))[1][0]
    assert replaced != "c1"
    assert len({call_id for call_id, _ in ids_and_names((replaced, "n"), ("c1", "n"), ("c1", "n"))}) == 3


def test_what_replaces_an_id_does_not_hang_on_other_calls():
    one, other = ("x" * 41, "n"), ("y" * 41, "n")
    assert set(ids_and_names(one, other)) == set(ids_and_names(other, one))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"_raw": '{"q": '}, '{"q": '),
        ({"_raw": "ls -l"}, "ls -l"),
        ({"_raw": "{}"}, '{"_raw":"{}"}'),
        ({"_raw": ""}, '{"_raw":""}'),
        ({"_raw": "[" * 100_000}, '{"_raw":"' + "[" * 100_000 + '"}'),
        ({"_raw": "x", "q": 1}, '{"_raw":"x","q":1}'),
    ],
)
def test_arguments_that_were_no_json_are_the_text_that_they_came_as(arguments, text):
    request = asking(tool_call_part("c1", "look", arguments), tool_result_part("c1", None, ""))[0]
    assert request["tool_calls"][0]["function"]["arguments"] == text


@pytest.mark.parametrize(
    ("result", "failed", "content"),
    [
        ("", False, ""),
        ("", True, "Error"),
        ("gone", True, "Error: gone"),
        ("ERROR 404", True, "ERROR 404"),
        (None, False, "null"),
        ([], False, "[]"),
        ([text_part("a"), text_part(""), text_part("b")], True, [text_part("Error: a"), text_part("b")]),
        ([text_part("")], False, ""),
        ([{"type": "image", "data": PNG}, {"type": "file", "file_name": "f"}], False, ["[image]", "[file: f]"]),
        ([{"type": "image", "url": "https://x.y/\n" + "z" * 300}], False, "[image: https://x.y/ " + "z" * 187 + "…]"),
    ],
)
def test_a_result_is_text(result, failed, content):
    answer = asking(CALL, tool_result_part("c1", None, result, is_error=failed))[1]["content"]
    if isinstance(content, list):
        content = [text_part(text) if isinstance(text, str) else text for text in content]
    assert answer == content


def test_reasoning_is_left_out_and_a_message_that_was_nothing_else_with_it():
    assert asking(reasoning_part("hm", "c2ln"), "So.") == [{"role": "assistant", "content": "So."}]
    assert asking(reasoning_part("hm", "c2ln")) == []


def test_a_speaker_is_named_beside_the_content_or_where_the_api_refuses_the_name_in_it():
    assert asking("Hi", name="Ann") == [{"role": "assistant", "name": "Ann", "content": "Hi"}]
    assert asking("Hi", "there", name="Ann Lee") == [
        {"role": "assistant", "content": [text_part("Ann Lee: Hi"), text_part("there")]}
    ]


def shown(part: Json, role: str = "user") -> str | list[Json]:
    [one] = render_openai(ContextLayout(before=(message(role, part),)))
    return one["content"]


def test_an_image_says_what_its_first_bytes_are():
    [block] = shown({"type": "image", "data": WEBP, "mime_type": "image/png"})
    assert block["image_url"] == {"url": f"data:image/webp;base64,{WEBP}"}
    [block] = shown({"type": "image", "data": "AAAA", "mime_type": "image/JPG"})
    assert block["image_url"] == {"url": "data:image/jpeg;base64,AAAA"}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "image", "url": "HTTPS://x.y/i"}, {"type": "image_url", "image_url": {"url": "HTTPS://x.y/i"}}),
        (
            {"type": "file", "data": PDF, "file_name": "a.pdf"},
            {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"}},
        ),
        ({"type": "file", "metadata": {"file_id": "file-1"}}, {"type": "file", "file": {"file_id": "file-1"}}),
        (
            {"type": "file", "data": "AAAA", "content_type": "Audio/MPEG; rate=1"},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        ),
    ],
)
def test_a_user_shows_images_files_and_sounds(part, block):
    assert shown(part) == [block]
    assert isinstance(shown(part, "assistant"), str)


@pytest.mark.parametrize(
    ("part", "note"),
    [
        ({"type": "image", "data": "AAAA"}, "[image]"),
        ({"type": "image", "data": "AAAA", "mime_type": "image/svg+xml"}, "[image]"),
        ({"type": "image", "url": "gs://b/i.png"}, "[image: gs://b/i.png]"),
        ({"type": "file", "data": "AAAA", "file_name": "t.csv", "content_type": "text/csv"}, "[file: t.csv]"),
        ({"type": "file", "url": "https://x.y/a.pdf"}, "[file: https://x.y/a.pdf]"),
        ({"type": "file", "metadata": {"file_id": "file_1"}}, "[file]"),
    ],
)
def test_what_the_api_would_refuse_is_a_note(part, note):
    assert shown(part) == note
