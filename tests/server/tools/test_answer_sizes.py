"""No answer is larger than its limit, whatever is stored; reading on by what it says gives everything exactly once."""

import base64
import hashlib
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)

from .calling import Connect, Json, Tools, examples

pytestmark = pytest.mark.anyio

LIMIT = 256 * 1024
# Of the whole of one image: base64 of 150 kB.
IMAGES = [base64.b64encode(bytes([number]) * 150_000).decode() for number in range(8)]


@pytest.fixture
async def small(connect: Connect) -> AsyncIterator[Tools]:
    """A client of a server whose answers are small, and which does not take its time to look for secrets."""
    async with connect(limits={"answer_bytes": LIMIT}, redaction="off", toolsets="all") as opened:
        yield opened


def sent(result: CallToolResult | ReadResourceResult) -> int:
    return len(result.model_dump_json(by_alias=True, exclude_none=True).encode())


def image(data: str) -> Json:
    return {"type": "image", "data": data, "mime_type": "image/png"}


def note(data: str, part: str) -> Json:
    content = base64.b64decode(data)
    said = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), "part": part}
    return {"type": "image", "mime_type": "image/png", **said}


async def pages(tools: Tools, thread: str, *, detail: str = "normal", **start: Any) -> AsyncIterator[Json]:
    """Every page from a place on, each held to the limit."""
    step: Json | None = start
    while step is not None:
        result = await tools.raw(
            "get_messages", thread_id=thread, **{"limit": 200, "detail": detail, "format": "json", **step}
        )
        assert not result.is_error
        assert sent(result) <= LIMIT
        page = result.structured_content
        assert page is not None
        assert isinstance(result.content[0], TextContent)
        assert json.loads(result.content[0].text) == page
        yield page
        step = page.get("next")


async def whole(tools: Tools, thread: str, entry: Json, *, detail: str = "normal") -> list[Json]:
    """The parts of a message, also of one that is too large for one answer."""
    parts, cut = list(entry["parts"]), entry.get("cut", {}).get("part")
    while cut:
        page = await anext(pages(tools, thread, part=cut, detail=detail))
        (rest,) = page["messages"]
        assert (rest["id"], rest["seq"]) == (entry["id"], entry["seq"])
        # A place names the part that it is in, and the character: from the first on, it is a part of its own.
        first, *others = rest["parts"]
        if cut.endswith("~0"):
            parts.append(first)
        else:
            key = "text" if first["type"] == "text" else "json"
            parts[-1] = {**parts[-1], key: parts[-1][key] + first[key]}
        parts += others
        cut = page.get("next", {}).get("part")
    return [json.loads(part["json"]) if "json" in part else part for part in parts]


async def test_images_are_notes_of_their_size_and_hash_and_come_one_at_a_time(small: Tools) -> None:
    for data in IMAGES:
        await small.add("main", {"role": "user", "content": [{"type": "text", "text": "see"}, image(data)]})
    seen = [entry async for page in pages(small, "main", after=0) for entry in page["messages"]]
    assert [entry["parts"][1] for entry in seen] == [note(data, f"{at}.1") for at, data in enumerate(IMAGES, start=1)]
    result = await small.raw("get_messages", format="json", thread_id="main", part="3.1")
    text, content = result.content
    assert isinstance(text, TextContent)
    assert isinstance(content, ImageContent)
    assert (content.data, content.mime_type) == (IMAGES[2], "image/png")
    assert result.structured_content is not None
    assert result.structured_content["messages"][0]["parts"] == [note(IMAGES[2], "3.1")]
    assert IMAGES[2] not in text.text
    assert sent(result) < len(IMAGES[2]) + LIMIT


async def test_images_come_whole_where_they_are_asked_for_and_fit(small: Tools) -> None:
    icon = base64.b64encode(b"i" * 30_000).decode()
    for data in (icon, IMAGES[0], icon, icon, icon):
        await small.add("main", {"role": "user", "content": [image(data)]})
    found = [entry async for page in pages(small, "main", after=0, detail="high") for entry in page["messages"]]
    assert [entry["parts"] for entry in found] == [
        [note(data, f"{at}.0") if data == IMAGES[0] else image(data)]
        for at, data in enumerate((icon, IMAGES[0], icon, icon, icon), start=1)
    ]


async def test_a_resource_of_messages_is_as_large_and_gives_one_image_as_its_bytes(small: Tools) -> None:
    for data in IMAGES:
        await small.add("main", {"role": "user", "content": [image(data)]})
    read = await small.client.read_resource("memory://threads/main/messages?limit=200")
    (told,) = read.contents
    assert isinstance(told, TextResourceContents)
    assert sent(read) <= LIMIT
    assert len(json.loads(told.text)["messages"]) == len(IMAGES)
    (content,) = (await small.client.read_resource("memory://threads/main/messages?part=1.0")).contents
    assert isinstance(content, BlobResourceContents)
    assert (content.blob, content.mime_type) == (IMAGES[0], "image/png")


async def test_a_file_and_an_image_in_the_answer_of_a_tool_come_one_at_a_time_too(small: Tools) -> None:
    file = {"type": "file", "data": IMAGES[0], "file_name": "a.pdf", "content_type": "application/pdf"}
    call = {"type": "tool_call", "id": "c", "name": "look", "arguments": {}}
    answer = {"type": "tool_result", "tool_call_id": "c", "result": [{"type": "text", "text": "!"}, image(IMAGES[1])]}
    await small.add(
        "main",
        {"role": "user", "parts": [file]},
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [answer]},
    )
    kept, _, told = await small.messages("main")
    assert (kept["parts"][0]["file_name"], kept["parts"][0]["bytes"]) == ("a.pdf", 150_000)
    assert told["parts"][0]["result"] == [{"type": "text", "text": "!"}, note(IMAGES[1], "3.0.1")]
    content = (await small.raw("get_messages", format="json", thread_id="main", part=kept["parts"][0]["part"])).content[
        1
    ]
    assert isinstance(content, EmbeddedResource)
    assert isinstance(content.resource, BlobResourceContents)
    assert (content.resource.blob, content.resource.mime_type) == (IMAGES[0], "application/pdf")
    content = (await small.raw("get_messages", format="json", thread_id="main", part="3.0.1")).content[1]
    assert isinstance(content, ImageContent)
    assert content.data == IMAGES[1]


@examples(6)
@given(
    sizes=st.lists(st.sampled_from([1, 3_000, 60_000, 110_000, 130_000, 250_000]), min_size=1, max_size=7),
    character=st.sampled_from(["x", '"', "\\", "\n", "é", "\x01"]),
    start=st.sampled_from([{}, {"after": 0}, {"offset": 0}]),
)
async def test_reading_on_gives_every_message_once_in_order_whatever_the_sizes(
    small: Tools, sizes: list[int], character: str, start: Json
) -> None:
    thread = uuid.uuid4().hex
    texts = [f"{at} {character * (size // len(character.encode()))}" for at, size in enumerate(sizes)]
    for text in texts:
        await small.say(thread, text)
    found = [page["messages"] async for page in pages(small, thread, **start)]
    entries = [entry for page in (found if start else found[::-1]) for entry in page]
    assert [entry["seq"] for entry in entries] == list(range(1, len(texts) + 1))
    for entry, text in zip(entries, texts, strict=True):
        assert await whole(small, thread, entry) == [{"type": "text", "text": text}]


async def test_a_message_that_is_too_large_goes_on_inside(small: Tools) -> None:
    call = {"type": "tool_call", "id": "c", "name": "write", "arguments": {"text": "w" * 120_000}}
    parts = [{"type": "text", "text": "“" * 20_000}, image(IMAGES[0]), call, {"type": "text", "text": "end"}]
    answer = {"type": "tool_result", "tool_call_id": "c", "result": ['"' * 60_000]}
    await small.add("main", {"role": "assistant", "parts": parts}, {"role": "tool", "parts": [answer]})
    await small.say("main", "after")
    found = [page async for page in pages(small, "main", after=0)]
    first, second, third = (entry for page in found for entry in page["messages"])
    assert first["cut"]["bytes"] > 180_000
    assert await whole(small, "main", first) == [parts[0], note(IMAGES[0], "1.1"), call, parts[3]]
    assert await whole(small, "main", second) == [answer]
    assert third["parts"] == [{"type": "text", "text": "after"}]


async def test_what_is_not_there_is_no_part(small: Tools) -> None:
    await small.say("main", "hello")
    for part in ("1.1", "1.0", "2.0~0", "1.0~6", "1.5~0", "1", "x", "1.0.0", f"{10**17}.0"):
        assert "part: there is nothing at" in await small.refused("get_messages", thread_id="main", part=part)
    assert "part: there is" in await small.refused("get_messages", thread_id="nobody", part="1.0")
    assert "leave offset" in await small.refused("get_messages", thread_id="main", part="1.0~0", after=1)


async def test_every_list_is_cut_at_the_end_of_an_item_and_goes_on(small: Tools) -> None:
    large = {"k": "v" * 15_000}
    for number in range(12):
        await small("update_thread", thread_id=f"t{number:02}", metadata=large)
        await small("suspend_run", run_id=f"r{number:02}", thread_id="t00", state=1, metadata=large)
    steps: list[Json] = [{"type": "text", "operation_id": "op", "content": f"{number}" * 20_000} for number in range(9)]
    happened = [{"type": "TurnEnd", "payload": {"text": f"{number}" * 20_000}} for number in range(9)]
    await small("record_steps", thread_id="t00", steps=[*steps, *happened])
    for tool, rows, request in (
        ("list_threads", "threads", {"limit": 100, "order_by": "created_at", "descending": False}),
        ("list_threads", "threads", {"limit": 100, "order_by": "title"}),
        ("list_runs", "runs", {"limit": 100}),
        ("list_steps", "steps", {"limit": 200, "thread_id": "t00"}),
        ("list_events", "events", {"limit": 200, "thread_id": "t00", "types": ["TurnEnd"]}),
    ):
        found: list[str] = []
        step: Json | None = {}
        count = 0
        while step is not None:
            result = await small.raw(tool, **request, **step)
            assert sent(result) <= LIMIT
            page = result.structured_content
            assert page is not None
            found += [json.dumps(row) for row in page[rows]]
            more = page.get("next_cursor", "") or (page["next"] if page.get("more") else "")
            step = {"after" if tool == "list_events" else "cursor": more} if more else None
            count += 1
        assert len(found) == len(set(found)) == (9 if tool in ("list_steps", "list_events") else 12)
        assert count > 1
    listed: list[str] = []
    uri: str | None = "memory://threads"
    while uri:
        read = await small.client.read_resource(uri)
        assert sent(read) <= LIMIT
        assert isinstance(read.contents[0], TextResourceContents)
        page = json.loads(read.contents[0].text)
        listed += [row["thread_id"] for row in page["threads"]]
        uri = f"memory://threads?cursor={page['next_cursor']}" if "next_cursor" in page else None
    assert sorted(listed) == [f"t{number:02}" for number in range(12)]


async def test_an_image_that_a_tool_gave_in_lines_is_read_as_it_is_stored_where_that_is_asked_for(small: Tools) -> None:
    """What is no strict base64 has no place that could be asked for."""
    lines = base64.encodebytes(b"\x89PNG" * 60_000).decode()
    result = [image(lines), image(IMAGES[0])]
    await small.add(
        "main", {"role": "tool", "content": [{"type": "tool_result", "tool_call_id": "x", "result": result}]}
    )
    (entry,) = [each async for page in pages(small, "main") for each in page["messages"]]
    assert entry["parts"][0]["result"] == [image("[base64, 240,000 bytes]\n"), note(IMAGES[0], "1.0.1")]
    (entry,) = [each async for page in pages(small, "main", detail="high") for each in page["messages"]]
    (part,) = await whole(small, "main", entry, detail="high")
    assert part["result"] == [image(lines), note(IMAGES[0], "1.0.1")]


async def test_a_context_is_as_large_and_keeps_the_image_that_there_is_room_for(small: Tools) -> None:
    icon = base64.b64encode(b"\x89PNG" + b"i" * 3_000).decode()
    digest = hashlib.sha256(base64.b64decode(IMAGES[1])).hexdigest()
    for number, data in enumerate((IMAGES[0], icon, IMAGES[1])):
        await small.add("main", {"role": "user", "content": [{"type": "text", "text": "see"}, image(data)]})
        for format in ("text", "openai", "responses", "anthropic", "gemini", "ai-sdk", "json"):
            result = await small.raw("get_context", thread_id="main", max_tokens=100_000, format=format)
            assert sent(result) <= LIMIT
            told = result.content[0]
            assert isinstance(told, TextContent)
            assert (icon in told.text) == (number == 1 and format != "text")
            assert not [large for large in IMAGES if large in told.text]
            if number == 2 and format != "text":
                assert digest in told.text
                assert "3.1" in told.text


async def test_texts_whose_tokens_have_many_bytes_are_cut_too(small: Tools) -> None:
    for number in range(3):
        await small.say("main", f"tea {number} " + "=" * 110_000)
    for tool, request in (
        ("get_context", {"max_tokens": 200_000, "thread_id": "main"}),
        ("get_context", {"max_tokens": 200_000, "thread_id": "main", "format": "json"}),
        ("recall_memory", {"query": "tea", "detail": "high", "max_tokens": 20_000}),
        ("recall_memory", {"query": "tea", "detail": "high", "max_tokens": 20_000, "format": "json"}),
        ("get_briefing", {"task": "tea", "thread_id": "main", "max_tokens": 20_000}),
    ):
        result = await small.raw(tool, **request)
        assert not result.is_error
        assert sent(result) <= LIMIT
    for name, arguments in (("load_memory", {"thread_id": "main", "query": "tea"}), ("resume_work", {})):
        prompt = await small.client.get_prompt(name, arguments)
        assert len(prompt.model_dump_json().encode()) <= LIMIT


async def test_a_run_is_listed_without_what_is_too_large_and_resumed_with_all_of_it(small: Tools) -> None:
    waiting = [{"tool_call_id": "c", "suspended": True, "suspend_payload": "p" * 200_000}]
    await small("suspend_run", run_id="r", state="s" * 1_000_000, pending_tool_calls=waiting)
    result = await small.raw("get_run", run_id="r")
    assert sent(result) <= LIMIT
    assert result.structured_content is not None
    assert "pending_tool_calls (200" in result.structured_content["cut"]
    resumed = await small.raw("resume_run", run_id="r")
    assert resumed.structured_content is not None
    assert resumed.structured_content["state"] == "s" * 1_000_000
    # What cannot be cut is sent once.
    assert sent(resumed) < 1_300_000
    assert isinstance(resumed.content[0], TextContent)
    assert "structured content" in resumed.content[0].text
