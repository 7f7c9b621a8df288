"""Blocks and answers of the Anthropic shape."""

import base64

import pytest

from layerlore.memory.parts.message_shapes import IncomingMessage, parse_messages
from layerlore.memory.rules.validation import Limits
from layerlore.storage.core.errors import InvalidInput

PNG = base64.b64encode(b"\x89PNG").decode()
FOUND = {"type": "tool_result", "tool_call_id": "c1"}
LIMITS = Limits()


def parse_one(message: dict) -> IncomingMessage:
    (parsed,) = parse_messages([message], LIMITS)
    return parsed


def parts_of(block: dict, role: str = "assistant") -> list[dict]:
    return parse_one({"role": role, "content": [block]}).parts


QUOTED = {"type": "text", "media_type": "text/plain", "data": "The text."}


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            [{"type": "reasoning", "text": "Hm.", "signature": "s"}],
        ),
        (
            {"type": "thinking", "thinking": "", "signature": "s"},
            [{"type": "reasoning", "text": "", "signature": "s"}],
        ),
        ({"type": "redacted_thinking", "data": "xyz"}, [{"type": "reasoning", "text": "", "data": "xyz"}]),
        (
            {"type": "image", "source": {"type": "file", "file_id": "f1"}},
            [{"type": "file", "content_type": "image/*", "metadata": {"file_id": "f1"}}],
        ),
        (
            {
                "type": "document",
                "title": "Report",
                "context": "Draft",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
                "citations": {"enabled": True},
            },
            [
                {
                    "type": "file",
                    "data": "AAAA",
                    "file_name": "Report",
                    "content_type": "application/pdf",
                    "metadata": {"context": "Draft"},
                }
            ],
        ),
        ({"type": "document", "source": QUOTED}, [{"type": "text", "text": "The text."}]),
        (
            {"type": "document", "title": "Report", "source": {"type": "content", "content": ["a", "b"]}},
            [
                {"type": "file", "file_name": "Report"},
                {"type": "text", "text": "a"},
                {"type": "text", "text": "b"},
            ],
        ),
        (
            {"type": "document", "source": {"type": "file", "file_id": "f1"}},
            [{"type": "file", "metadata": {"file_id": "f1"}}],
        ),
        (
            {
                "type": "search_result",
                "source": "https://a",
                "title": "A",
                "content": [{"type": "text", "text": "found"}],
            },
            [{"type": "file", "url": "https://a", "file_name": "A"}, {"type": "text", "text": "found"}],
        ),
        ({"type": "container_upload", "file_id": "f1"}, [{"type": "file", "metadata": {"file_id": "f1"}}]),
        (
            {"type": "server_tool_use", "id": "c1", "name": "web_search", "input": {"q": "x"}, "caller": {"type": "x"}},
            [{"type": "tool_call", "id": "c1", "name": "web_search", "arguments": {"q": "x"}}],
        ),
        (
            {"type": "mcp_tool_use", "id": "c1", "name": "find", "server_name": "maps", "input": {}},
            [{"type": "tool_call", "id": "c1", "name": "mcp__maps__find", "arguments": {}}],
        ),
        (
            {
                "type": "mcp_tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "x"}],
                "is_error": True,
            },
            [{**FOUND, "result": "x", "is_error": True}],
        ),
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "c1",
                "content": [{"url": "u", "encrypted_content": "e"}],
            },
            [{**FOUND, "result": [{"url": "u", "encrypted_content": "e"}]}],
        ),
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "c1",
                "content": {"type": "web_search_tool_result_error", "error_code": "x"},
            },
            [
                {
                    **FOUND,
                    "result": {"type": "web_search_tool_result_error", "error_code": "x"},
                    "is_error": True,
                }
            ],
        ),
        ({"type": "tool_result", "tool_use_id": "c1"}, [{**FOUND, "result": ""}]),
        ({"type": "tool_result", "tool_use_id": "c1", "content": "x", "is_error": False}, [{**FOUND, "result": "x"}]),
        (
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [
                    {"type": "text", "text": "shot"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                ],
            },
            [
                {
                    **FOUND,
                    "result": [
                        {"type": "text", "text": "shot"},
                        {"type": "image", "data": PNG, "mime_type": "image/png"},
                    ],
                }
            ],
        ),
        (
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "tool_reference", "tool_name": "t"}]},
            [{**FOUND, "result": [{"type": "tool_reference", "tool_name": "t"}]}],
        ),
    ],
)
def test_anthropic_blocks_keep_everything_that_was_said(block, parts):
    parsed = parts_of(block)
    assert parsed == parts
    assert [list(part) for part in parsed] == [list(part) for part in parts]
    assert parse_one({"role": "assistant", "parts": parsed}).parts == parts


def test_a_user_message_of_tool_results_alone_has_the_role_tool():
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
    assert parse_one({"role": "user", "content": [result, result]}).role == "tool"
    assert parse_one({"role": "user", "content": [result, "and now?"]}).role == "user"
    assert parse_one({"role": "assistant", "content": [result]}).role == "assistant"


@pytest.mark.parametrize(
    ("block", "error"),
    [
        (
            {"type": "image", "source": {"type": "base46", "data": PNG}},
            "messages[0].content[0].source.type: unknown kind of source 'base46'; allowed: base64, url, file; "
            "did you mean 'base64'?",
        ),
        ({"type": "image", "source": {"type": "url"}}, "messages[0].content[0].source: an image needs a URL"),
        (
            {"type": "image_url", "image_url": "data:image/png"},
            "messages[0].content[0].image_url: a data: URL must look",
        ),
        ({"type": "image_url", "image_url": "data:,"}, "messages[0].content[0].image_url: a data: URL must hold"),
        ({"type": "image", "url": "u", "data": PNG}, "messages[0].content[0]: an image needs a URL or base64 data"),
        ({"type": "image", "url": "data:,a", "data": PNG}, "messages[0].content[0]: has both data and a data: URL"),
        ({"type": "file", "file": {}}, "messages[0].content[0].file: a file needs at least one of"),
        (
            {"type": "document", "source": {"type": "content", "content": [{"type": "thinking"}]}},
            "messages[0].content[0].source.content[0]: unknown part type 'thinking'; allowed: text, image",
        ),
        (
            {"type": "tool_use", "id": "", "name": "n", "input": {}},
            "messages[0].content[0].id: must not be empty",
        ),
        (
            {"type": "mcp_tool_use", "id": "c", "name": "n" * 200, "server_name": "s" * 200, "input": {}},
            "messages[0].content[0]: the name with the server's: 407 characters; at most 255 are allowed",
        ),
    ],
)
def test_a_malformed_block_is_refused_where_it_stands(block, error):
    with pytest.raises(InvalidInput) as caught:
        parts_of(block)
    assert str(caught.value).startswith(error)


def test_an_anthropic_answer_is_accepted_as_the_api_gives_it():
    parsed = parse_one(
        {
            "id": "msg_01",
            "type": "message",
            "role": "assistant",
            "model": "a-model",
            "container": None,
            "content": [{"type": "text", "text": "Hi", "citations": None}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "stop_details": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        }
    )
    assert parsed == IncomingMessage("msg_01", "assistant", None, [{"type": "text", "text": "Hi"}], {}, None)
