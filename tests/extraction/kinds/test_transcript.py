"""A transcript has what was said whole, what tools brought cut short, and nothing of what we put there."""

import json
from dataclasses import replace
from typing import Any

import pytest

from layerlore.extraction.kinds.kind import MOST_PAYLOAD, lines_as_json, read_lines
from layerlore.memory.digest.digest import take_notes
from layerlore.memory.engine.engine import Engine, said
from layerlore.memory.text.quotation import wrap_block
from layerlore.memory.text.trust import find_lowest_trust, find_trust
from layerlore.storage.core.records import Json, Message, Role
from layerlore.storage.core.transaction import Database

from ..talking import Talk

pytestmark = pytest.mark.anyio

KEY = f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}"
AT = 1_750_000_000_000


@pytest.fixture
def engine(database: Database) -> Engine:
    return Talk.on(database, redaction="derived").engine


def message(seq: int, *parts: Json, role: Role = "user", name: str | None = None) -> Message:
    return Message("main", seq, f"m{seq}", role, name, list(parts), {}, 1, "x", AT, AT, 1)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def call(id_: str, name: str, arguments: Any) -> Json:
    return {"type": "tool_call", "id": id_, "name": name, "arguments": arguments}


def result(id_: str, answer: Any, **more: Any) -> Json:
    return {"type": "tool_result", "tool_call_id": id_, "result": answer, **more}


def told(engine: Engine, *messages: Message) -> list[str]:
    return [line.text for line in read_lines(engine, messages, tools=True)]


async def test_a_line_has_seq_role_name_time_and_text(engine: Engine) -> None:
    lines = read_lines(engine, [message(3, text("hi"), text("there"), name="Ana")], tools=True)
    assert lines_as_json(lines) == [
        {"seq": 3, "role": "user", "name": "Ana", "said_at": "2025-06-15T15:06:40.000Z", "text": "hi\nthere"}
    ]


async def test_without_tools_a_line_is_exactly_what_was_said(engine: Engine) -> None:
    ours = wrap_block("memory", "recalled", "what is remembered")
    messages = [
        message(1, text(f"{ours}\nmy key is {KEY}"), {"type": "reasoning", "text": "hm"}),
        message(2, call("c", "weather", {}), role="assistant"),
        message(3, result("c", "sunny"), role="tool"),
        message(4, text(ours)),
    ]
    lines = read_lines(engine, messages, tools=False)
    assert [(line.seq, line.text) for line in lines] == [(1, said(engine, messages[0]))]
    assert lines[0].text.startswith("my key is [masked:")


async def test_calls_and_results_are_told_by_name_and_cut(engine: Engine) -> None:
    deep = {"rows": [{"n": n, "text": "x y " * 150} for n in range(50)], **{f"k{n}": n for n in range(60)}}
    lines = told(
        engine,
        message(1, call("c", "query", {"sql": "select 1"}), role="assistant"),
        message(2, result("c", deep), role="tool"),
        message(3, result("c", "boom", is_error=True), role="tool"),
        message(4, result("c", [text("part one"), {"type": "image", "data": "aaaa"}]), role="tool"),
    )
    assert lines[0] == '[tool call query({"sql":"select 1"})]'
    assert lines[1].startswith(
        '[tool result query: {"rows":[{"n":0,"text":"' + "x y " * 125 + "… (100 more characters)"
    )
    assert len(lines[1]) < MOST_PAYLOAD + 100
    assert lines[2:] == ["[tool error query: boom]", "[tool result query: part one\n[image]]"]


async def test_secrets_are_masked_before_anything_is_cut(engine: Engine) -> None:
    (line,) = told(engine, message(1, result("c", {"log": "y" * 480 + " " + KEY}), role="tool"))
    assert "[masked:" in line
    assert "sk-ant" not in line


async def test_encoded_payloads_are_told_by_their_length(engine: Engine) -> None:
    (line,) = told(engine, message(1, result("c", {"png": "iVBORw0KGgo" * 60}), role="tool"))
    assert json.loads(line.removeprefix("[tool result: ")[:-1]) == {"png": "[660 characters of encoded data]"}


async def test_what_our_own_tools_gave_back_is_left_out(engine: Engine) -> None:
    messages = [
        message(1, call("c", "mcp__layerlore__recall_memory", {"query": "tea"}), role="assistant"),
        message(2, result("c", "recalled words"), role="tool"),
        message(3, result("d", wrap_block("memory", "recalled words") + " rest"), role="tool"),
    ]
    assert told(engine, *messages) == ["[tool result: rest]"]


@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        ("forget", {"query": "the tea ceremony"}),
        ("mcp__layerlore__forget", {"query": "the tea ceremony"}),
        ("mcp__layerlore__forget", {}),
        ("remember", {"content": "the tea ceremony"}),
    ],
)
async def test_what_was_to_be_forgotten_does_not_come_back_by_the_preview_of_it(
    engine: Engine, tool: str, asked: dict[str, str]
) -> None:
    messages = [
        message(1, call("c", tool, asked), role="assistant"),
        message(2, result("c", "- message #4: the tea ceremony is on Friday"), role="tool"),
    ]
    assert told(engine, *messages) == []
    assert take_notes(messages) == []


async def test_a_result_whose_call_was_noted_before_is_left_out_too(engine: Engine) -> None:
    asked = call("c", "mcp__layerlore__plan", {"action": "review"})
    answer = replace(message(2, result("c", "the tea ceremony"), role="tool"), answered=(asked,))
    assert told(engine, answer) == []


async def test_files_and_images_leave_their_place_and_reasoning_none(engine: Engine) -> None:
    parts = (
        {"type": "image", "data": "aa"},
        {"type": "file", "file_name": "a.pdf"},
        {"type": "reasoning", "text": "x"},
    )
    assert told(engine, message(1, *parts)) == ["[image]\n[file: a.pdf]"]
    assert told(engine, message(1, parts[2])) == []


async def test_a_caption_is_among_the_words_of_its_message(engine: Engine) -> None:
    captioned = message(1, text("My bike"), {"type": "image", "data": "aa", "caption": f"red, {KEY}"})
    for tools in (False, True):
        (line,) = read_lines(engine, [captioned], tools=tools)
        assert line.text.startswith("My bike\n[image: red, [masked:")
    shot = message(2, result("c", [{"type": "image", "caption": "a red bicycle"}]), role="tool")
    assert told(engine, shot) == ["[tool result: [image: a red bicycle]]"]


@pytest.mark.parametrize(
    ("given", "trust"),
    [
        (message(1, text("x")), "user"),
        (message(1, text("x"), role="assistant"), "assistant"),
        (message(1, text("x"), role="system"), "assistant"),
        (message(1, result("c", "x"), role="tool"), "tool"),
        (message(1, result("c", "x", name="fetchWebPage"), role="tool"), "web"),
        (message(1, result("c", "x", name="http_get"), role="tool"), "web"),
        (message(1, text("x"), result("c", "x", name="query")), "tool"),
        (message(1, result("c", "x", name="cobweb_count"), role="tool"), "tool"),
    ],
)
def test_the_trust_of_a_message_is_whose_word_it_is(given: Message, trust: str) -> None:
    assert find_trust(given) == trust


def test_what_is_derived_has_the_lowest_trust_of_its_sources() -> None:
    assert find_lowest_trust(["user", "tool", "assistant"]) == "tool"
    assert find_lowest_trust([]) == "web"
