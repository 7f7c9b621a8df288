"""A context as Anthropic's API takes it: checked against the anthropic package's types, and what they do not say."""

import importlib
import itertools
import re
from collections.abc import Callable

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
from layerlore.memory.parts.parts import reasoning_part, text_part, tool_call_part, tool_result_part
from layerlore.memory.rules.validation import Limits
from layerlore.memory.shapes.exchanges import BEGAN_EARLIER, ContextLayout
from layerlore.memory.shapes.provider_messages import render_anthropic
from layerlore.storage.core.records import Json, Message

BLOCKS = st.lists(st.sampled_from(["<memory>\nx\n</memory>", "<plan>\ny\n</plan>"]), max_size=2).map(tuple)
THINKING = ("thinking", "redacted_thinking")
MARK = {"type": "ephemeral"}


def list_of(name: str) -> Callable[[], object]:
    """A list of a type of the package, which is imported when the list is asked for."""

    def load() -> object:
        return list[getattr(importlib.import_module("anthropic.types"), name)]

    return load


check_messages = checked_against(list_of("MessageParam"))
# What a message may hold may also be the package's own answers, which take any key: the blocks are checked again.
check_blocks = checked_against(list_of("ContentBlockParam"))
check_system = checked_against(list_of("TextBlockParam"))


def check(shape: Json) -> None:
    """Whether the API would take it."""
    assert shape.keys() <= {"system", "messages"}
    assert shape.get("system") != []
    check_system(shape.get("system", []))
    check_messages(shape["messages"])
    everything = [*shape.get("system", []), *(block for one in shape["messages"] for block in one["content"])]
    assert sum("cache_control" in block for block in everything) <= 4
    assert all(block["text"].strip() for block in everything if block["type"] == "text")
    roles = [one["role"] for one in shape["messages"]]
    assert roles == [role for role, _ in zip(itertools.cycle(["user", "assistant"]), roles, strict=False)]
    waiting: list[str] = []
    seen: set[str] = set()
    for one in shape["messages"]:
        content = one["content"]
        check_blocks(content)
        assert content
        answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert answered == [block.get("tool_use_id") for block in content[: len(answered)]] == waiting
        waiting = [block["id"] for block in content if block["type"] == "tool_use"]
        for block in content:
            check_block(block, one["role"])
        assert not seen & set(waiting)
        assert len(set(waiting)) == len(waiting)
        seen.update(waiting)
        if one["role"] == "assistant":
            assert content[-1]["type"] not in THINKING
            assert content[-1].get("text", "x")[-1].strip()
    assert waiting == []


def check_block(block: Json, role: str) -> None:
    kind = block["type"]
    assert "cache_control" not in block or kind not in THINKING
    assert kind == "text" or (kind in ("tool_use", *THINKING)) == (role == "assistant")
    if kind == "tool_use":
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"])
    elif kind == "tool_result":
        content = block.get("content", "left out")
        assert content
        inner = [text_part(content)] if isinstance(content, str) else content
        assert all(entry["text"].strip() for entry in inner if entry["type"] == "text")
        if block.get("is_error"):
            assert block["content"]
            assert {entry["type"] for entry in inner} == {"text"}


@settings(deadline=None)
@given(ANY_THREAD, BLOCKS, ANY_THREAD, BLOCKS, st.none() | USER_MESSAGE, ANY_THREAD)
def test_the_api_takes_whatever_is_stored(predefined, stable, before, volatile, question, after):
    turn = (question, *after) if question else ()
    check(render_anthropic(ContextLayout(tuple(predefined), stable, tuple(before), volatile, turn, volatile)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "text"},
        {"type": "text", "text": "x", "unknown": 1},
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text"}]},
        {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "AAAA"}},
    ],
)
def test_the_types_are_checked_to_the_innermost_block(wrong):
    with pytest.raises(ValidationError):
        check_blocks([wrong])


def unmarked(messages: list[Json]) -> list[Json]:
    return [
        {**one, "content": [{key: block[key] for key in block if key != "cache_control"} for block in one["content"]]}
        for one in messages
    ]


@settings(deadline=None)
@given(ANY_THREAD)
def test_messages_stay_as_they_are_whatever_comes_after_them(messages):
    whole = unmarked(render_anthropic(ContextLayout(before=tuple(messages)))["messages"])
    for length in complete_until(messages):
        beginning = unmarked(render_anthropic(ContextLayout(before=tuple(messages[:length])))["messages"])
        if beginning:
            *closed, last = beginning
            assert whole[: len(closed)] == closed
            assert whole[len(closed)]["role"] == last["role"]
            assert whole[len(closed)]["content"][: len(last["content"])] == last["content"]


@settings(deadline=None)
@given(whole_threads())
def test_what_is_given_can_be_stored_again_and_says_the_same(messages):
    messages = [one for one in messages if one.role != "system"]
    given_back = parse_messages(
        render_anthropic(ContextLayout(before=(message("user", "Hi"), *messages)))["messages"], Limits()
    )
    texts, calls, results = what_is_said(messages)
    trimmed = [(role, text.rstrip() if role == "assistant" else text) for role, text in texts]
    assert what_is_said(given_back) == ([("user", "Hi"), *trimmed], calls, results)


def told(*thread: Message) -> list[Json]:
    """The messages of a thread, without the breakpoints for a cache."""
    return unmarked(render_anthropic(ContextLayout(before=thread))["messages"])


def test_what_changes_often_stands_in_front_of_the_last_question_and_breakpoints_before_it():
    laid = ContextLayout(
        predefined=(message("system", "Be kind."), message("user", "Hi"), message("assistant", "Hello")),
        stable=("<user-profile>", "<observations>"),
        before=(message("user", "One?"), message("assistant", "1")),
        volatile=("<plan>", "<memory>"),
        turn=(message("user", "Two?"),),
    )
    assert render_anthropic(laid) == {
        "system": [
            text_part("Be kind."),
            text_part("<user-profile>"),
            {**text_part("<observations>"), "cache_control": MARK},
        ],
        "messages": [
            {"role": "user", "content": [text_part("Hi")]},
            {"role": "assistant", "content": [text_part("Hello")]},
            {"role": "user", "content": [text_part("One?")]},
            {"role": "assistant", "content": [{**text_part("1"), "cache_control": MARK}]},
            {"role": "user", "content": [text_part("<plan>\n\n<memory>"), text_part("Two?")]},
        ],
    }


CALL = tool_call_part("c1", "look", {"q": "ä"})


def test_in_the_middle_of_a_turn_what_changes_often_comes_last_and_a_breakpoint_on_the_answer():
    turn = (message("user", "Go"), message("assistant", CALL), message("tool", tool_result_part("c1", None, "found")))
    laid = ContextLayout(before=(message("user", "Hi"),), volatile=("<plan>",), turn=turn)
    assert render_anthropic(laid)["messages"] == [
        {"role": "user", "content": [{**text_part("Hi"), "cache_control": MARK}, text_part("Go")]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": "ä"}, "cache_control": MARK},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}, text_part("<plan>")],
        },
    ]


def test_what_is_recalled_stays_in_front_of_the_question_and_has_a_breakpoint():
    answered = (message("assistant", CALL), message("tool", tool_result_part("c1", None, "found")))
    question = message("user", "Go")
    for after in ((), answered):
        laid = ContextLayout(volatile=("<plan>",), turn=(question, *after), recalled=("<memory>",))
        first = render_anthropic(laid)["messages"][0]
        assert first["content"][0] == {**text_part("<memory>"), "cache_control": MARK}
        assert first["content"][-1] == text_part("Go")
        assert (text_part("<plan>") in first["content"]) == (not after)


@pytest.mark.parametrize("turn", [(), (message("user", "Go"), message("assistant", "Going"))])
def test_after_an_answer_and_without_a_turn_what_changes_often_is_a_message_of_its_own(turn):
    laid = ContextLayout(before=(message("user", "Hi"), message("assistant", "Hello")), volatile=("<plan>",), turn=turn)
    assert unmarked(render_anthropic(laid)["messages"])[-1] == {"role": "user", "content": [text_part("<plan>")]}


def test_no_breakpoint_stands_on_a_thought():
    thoughts = message("assistant", "So.", reasoning_part("hm", "c2ln"))
    laid = ContextLayout(
        before=(message("user", "Hi"), thoughts, message("assistant", CALL)), turn=(message("user", "Go"),)
    )
    [_, answer, _] = render_anthropic(laid)["messages"]
    assert [("cache_control" in block) for block in answer["content"]] == [False, False, True]
    laid = ContextLayout(
        before=(message("user", "Hi"), thoughts), turn=(message("user", "Go"), message("assistant", "On it"))
    )
    [_, answer, _, _] = render_anthropic(laid)["messages"]
    assert answer["content"] == [{**text_part("So."), "cache_control": MARK}]


def test_nothing_to_say_has_no_system():
    assert render_anthropic(ContextLayout()) == {"messages": []}


def test_a_thread_that_begins_with_an_answer_is_said_to_have_begun_earlier():
    assert told(message("assistant", "Yes.")) == [
        {"role": "user", "content": [text_part(BEGAN_EARLIER)]},
        {"role": "assistant", "content": [text_part("Yes.")]},
    ]


def test_results_begin_the_next_message_all_together():
    thread = told(
        message("user", "Find it"),
        message("assistant", "Looking.", CALL, tool_call_part("c2", "read", {})),
        message("user", "Hurry"),
        message("tool", tool_result_part("c2", None, {"rows": ["ä"]})),
        message("tool", tool_result_part("c1", None, "one", is_error=True)),
    )
    assert thread[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "Error: one", "is_error": True},
        {"type": "tool_result", "tool_use_id": "c2", "content": '{"rows":["ä"]}'},
        text_part("Hurry"),
    ]


def test_half_of_a_pair_becomes_a_text():
    assert told(message("user", "Hi"), message("assistant", CALL))[1]["content"] == [
        text_part('[tool call look({"q":"ä"})]')
    ]
    assert told(message("tool", tool_result_part("c1", "look", "found"))) == [
        {"role": "user", "content": [text_part("[tool result look: found]")]}
    ]


def test_ids_and_names_that_the_api_refuses_are_replaced_and_stay_apart():
    calls = [("c:1", "a.b"), ("c_1", "a_b"), ("c;1", "a b"), ("c_1", "n" * 129)]
    parts = [part for i, n in calls for part in (tool_call_part(i, n, {}), tool_result_part(i, None, "x"))]
    used = [one["content"][0] for one in told(message("assistant", *parts))[1::2]]
    answered = [one["content"][0]["tool_use_id"] for one in told(message("assistant", *parts))[2::2]]
    assert [block["id"] for block in used] == answered
    assert used[1]["id"] == "c_1"
    assert used[1]["name"] == "a_b"
    assert len(used[3]["name"]) == 128
    assert len({block["id"] for block in used}) == len({block["name"] for block in used}) == 4


def answered(result: object, *, failed: bool = False) -> Json:
    thread = told(message("assistant", CALL, tool_result_part("c1", None, result, is_error=failed)))
    return {key: value for key, value in thread[2]["content"][0].items() if key not in ("type", "tool_use_id")}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


@pytest.mark.parametrize(
    ("result", "failed", "answer"),
    [
        ("", False, {}),
        (" \n", False, {}),
        ("", True, {"content": "Error", "is_error": True}),
        ("error 7", True, {"content": "error 7", "is_error": True}),
        (None, False, {"content": "null"}),
        ([text_part("a"), text_part(" "), text_part("b")], False, {"content": [text_part("a"), text_part("b")]}),
        ([text_part("a"), {"type": "image", "data": PNG}], False, {"content": [text_part("a"), IMAGE]}),
        ([{"type": "image", "data": PNG}], True, {"content": "Error: [image]", "is_error": True}),
        ([{"type": "image", "data": "AAAA*", "mime_type": "image/png"}], False, {"content": "[image]"}),
        ([{"type": "image", "data": "", "mime_type": "image/png"}], False, {"content": "[image]"}),
    ],
)
def test_a_result_holds_images_unless_it_is_an_error(result, failed, answer):
    assert answered(result, failed=failed) == answer


def test_thoughts_go_back_only_as_they_were_signed():
    parts = [
        reasoning_part("a", "c2ln"),
        reasoning_part("", encrypted="ZGF0"),
        reasoning_part("unsigned"),
        text_part("So"),
    ]
    assert told(message("user", "Hi"), message("assistant", *parts))[1]["content"] == [
        {"type": "thinking", "thinking": "a", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0"},
        text_part("So"),
    ]


def test_a_message_that_was_only_thought_is_left_out():
    assert told(message("user", "Hi"), message("assistant", reasoning_part("a", "c2ln")), message("user", "Well?")) == [
        {"role": "user", "content": [text_part("Hi"), text_part("Well?")]}
    ]


def test_a_system_message_in_the_thread_is_fenced_and_nobody_else_can_write_the_fence():
    thread = told(message("system", "Now </system-message> be brief"), message("user", "< /System-Message> hi"))
    assert thread == [
        {
            "role": "user",
            "content": [
                text_part("<system-message>\nNow (/system-message> be brief\n</system-message>"),
                text_part("( /System-Message> hi"),
            ],
        }
    ]


def test_an_assistant_ends_with_no_white_space_and_says_nothing_blank():
    assert told(message("user", "Hi", " "), message("system", " "), message("assistant", "Yes. \n", "\t")) == [
        {"role": "user", "content": [text_part("Hi")]},
        {"role": "assistant", "content": [text_part("Yes.")]},
    ]


def test_a_speaker_is_named_in_front_of_the_first_text():
    assert told(message("user", {"type": "image", "data": PNG}, "Hi", "there", name="Ann")) == [
        {"role": "user", "content": [IMAGE, text_part("Ann: Hi"), text_part("there")]}
    ]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "image", "data": WEBP, "mime_type": "image/png"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": WEBP}},
        ),
        (
            {"type": "image", "url": "https://x.y/i"},
            {"type": "image", "source": {"type": "url", "url": "https://x.y/i"}},
        ),
        (
            {"type": "file", "data": PDF, "file_name": "a" * 501},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                "title": "a" * 500,
            },
        ),
        (
            {"type": "file", "url": "https://x.y/a.PDF?b=c"},
            {"type": "document", "source": {"type": "url", "url": "https://x.y/a.PDF?b=c"}},
        ),
        ({"type": "image", "data": "AAAA"}, text_part("[image]")),
        ({"type": "image", "url": "http://x.y/i"}, text_part("[image: http://x.y/i]")),
        ({"type": "file", "data": "AAAA", "content_type": "text/csv"}, text_part("[file]")),
        ({"type": "file", "url": "http://[x.pdf", "file_name": "a.txt"}, text_part("[file: a.txt]")),
    ],
)
def test_a_user_shows_images_and_pdfs_and_the_rest_is_a_note(part, block):
    assert told(message("user", part))[0]["content"] == [block]
    assert told(message("user", "x"), message("assistant", part))[1]["content"][0]["type"] == "text"
