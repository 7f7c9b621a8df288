"""Messages and blocks of the OpenAI chat shape, and what the SDK itself dumps."""

import base64

import pytest

from layerlore.memory.parts.message_shapes import IncomingMessage, parse_messages
from layerlore.memory.rules.validation import Limits
from layerlore.storage.core.errors import InvalidInput

LIMITS = Limits()


def parse_one(message: dict) -> IncomingMessage:
    (parsed,) = parse_messages([message], LIMITS)
    return parsed


def parts_of(block: dict, role: str = "assistant") -> list[dict]:
    return parse_one({"role": role, "content": [block]}).parts


def call(arguments: object) -> dict:
    return {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "n", "arguments": arguments}}]}


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        (None, {}),
        ('{"a": ', {"_raw": '{"a": '}),
        ("[1]", {"_raw": "[1]"}),
        ('{"a": NaN}', {"_raw": '{"a": NaN}'}),
        ('{"a": 1, "a": 2}', {"_raw": '{"a": 1, "a": 2}'}),
    ],
)
def test_arguments_are_an_object_and_text_that_is_none_is_kept_raw(arguments, kept):
    assert parse_one(call(arguments)).parts[0]["arguments"] == kept


def test_arguments_whose_json_hides_a_nul_are_refused():
    with pytest.raises(InvalidInput, match=r"tool_calls\[0\]\.function\.arguments\.a: character 0 is NUL"):
        parse_one(call('{"a": "\\u0000"}'))


FOUND = {"type": "tool_result", "tool_call_id": "c1"}


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (
            {"role": "assistant", "content": None, "refusal": "I cannot."},
            [{"type": "text", "text": "I cannot."}],
        ),
        (
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            [{"type": "text", "text": "No."}],
        ),
        (
            {"role": "assistant", "content": None, "audio": {"id": "a1", "data": "AAAA", "transcript": "Hello"}},
            [
                {"type": "text", "text": "Hello"},
                {"type": "file", "data": "AAAA", "content_type": "audio/*", "metadata": {"file_id": "a1"}},
            ],
        ),
        (
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "n", "input": "{}"}}],
            },
            [{"type": "tool_call", "id": "c", "name": "n", "arguments": {"_raw": "{}"}}],
        ),
        (
            {"role": "assistant", "content": "", "function_call": {"name": "look", "arguments": '{"q": 1}'}},
            [{"type": "tool_call", "id": "function:look", "name": "look", "arguments": {"q": 1}}],
        ),
        (
            {"role": "function", "name": "look", "content": "found"},
            [{"type": "tool_result", "tool_call_id": "function:look", "name": "look", "result": "found"}],
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "x"},
            [{**FOUND, "name": "look", "result": "x"}],
        ),
        ({"role": "tool", "tool_call_id": "c1", "content": None}, [{**FOUND, "result": ""}]),
        (
            {"role": "tool", "tool_call_id": "c1", "content": ["a", "", "b"]},
            [{**FOUND, "result": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        ),
        (
            {"role": "assistant", "content": "4", "reasoning_content": "2+2"},
            [{"type": "reasoning", "text": "2+2"}, {"type": "text", "text": "4"}],
        ),
        (
            {"role": "assistant", "content": "4", "reasoning": "2+2", "reasoning_details": [{"text": "2+2"}]},
            [{"type": "reasoning", "text": "2+2"}, {"type": "text", "text": "4"}],
        ),
        (
            {
                "role": "assistant",
                "content": "4",
                "reasoning_content": "2+2",
                "thinking_blocks": [{"type": "thinking", "thinking": "2+2", "signature": "s"}],
            },
            [{"type": "reasoning", "text": "2+2", "signature": "s"}, {"type": "text", "text": "4"}],
        ),
        (
            {
                "role": "assistant",
                "content": "Here.",
                "images": [{"type": "image_url", "image_url": {"url": "u"}, "index": 0}],
            },
            [{"type": "text", "text": "Here."}, {"type": "image", "url": "u"}],
        ),
    ],
)
def test_openai_messages_keep_everything_that_was_said(message, parts):
    parsed = parse_one(message)
    assert parsed.parts == parts
    assert parsed.name is None


def test_a_function_message_is_a_tool_message():
    assert parse_one({"role": "function", "name": "look", "content": "found"}).role == "tool"


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "image_url", "image_url": "https://a/b"}, {"type": "image", "url": "https://a/b"}),
        (
            {"type": "image_url", "image_url": {"url": "DATA:image/svg+xml,%3Csvg%2F%3E"}},
            {"type": "image", "data": base64.b64encode(b"<svg/>").decode(), "mime_type": "image/svg+xml"},
        ),
        ({"type": "image", "url": "data:;base64,AA%3D%3D"}, {"type": "image", "data": "AA=="}),
        ({"type": "image", "data": "AA\r\nAA\n"}, {"type": "image", "data": "AAAA"}),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
            {"type": "file", "data": "AAAA", "content_type": "audio/mpeg"},
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
            {"type": "file", "data": "AAAA", "file_name": "a.pdf", "content_type": "application/pdf"},
        ),
        ({"type": "file", "file": {"file_data": "AAAA"}}, {"type": "file", "data": "AAAA"}),
        ({"type": "file", "file": {"file_id": "f1"}}, {"type": "file", "metadata": {"file_id": "f1"}}),
    ],
)
def test_openai_blocks_become_image_and_file_parts(block, part):
    assert parts_of(block, "user") == [part]


def test_an_unknown_kind_of_tool_call_is_refused():
    with pytest.raises(InvalidInput, match="unknown kind of call 'funktion'; allowed: function, custom; did you mean"):
        parse_one({"role": "assistant", "tool_calls": [{"id": "c", "type": "funktion"}]})


@pytest.mark.parametrize("exclude_none", [True, False])
def test_an_openai_sdk_answer_is_accepted_as_it_dumps_itself(exclude_none):
    from openai.types.chat import ChatCompletionMessage

    answer = ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": "Looking.",
            "refusal": None,
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {"start_index": 0, "end_index": 1, "title": "t", "url": "https://a"},
                }
            ],
            "audio": None,
            "function_call": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q":"x"}'}}],
        }
    )
    expected = [
        {"type": "text", "text": "Looking."},
        {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"q": "x"}},
    ]
    assert parse_one(answer.model_dump(exclude_none=exclude_none)).parts == expected
    assert parse_messages(answer.model_dump_json(exclude_none=exclude_none), LIMITS)[0].parts == expected
