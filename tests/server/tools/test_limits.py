"""Every limit: at it, and one beyond."""

import json
from typing import Any

import pytest

from layerlore.server.tools.toolsets import DECLARATIONS

from .calling import Connect, Json, Tools, text_of

pytestmark = pytest.mark.anyio

TEXT = 256 * 1024
METADATA = 16 * 1024
MEDIA = 3 * 1024 * 1024


def user(content: Any, **rest: Any) -> Json:
    return {"role": "user", "content": content, **rest}


def nested(depth: int) -> Any:
    value: Any = "leaf"
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


def calling(arguments: Any) -> Json:
    function = {"name": "f", "arguments": json.dumps({"k": arguments})}
    return {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]}


async def test_a_message_has_at_most_256_kib_of_text(tools: Tools) -> None:
    text = "é" * (TEXT // 2)
    await tools.say("main", text)
    await tools.add("main", user(["x" * (TEXT // 2), "y" * (TEXT // 2)]))
    assert await tools.texts("main", limit=1, offset=0) == [text]
    for content in (text + "x", ["x" * (TEXT // 2), "y" * (TEXT // 2 + 1)]):
        error = await tools.refused("add_messages", thread_id="main", messages=[user(content)])
        assert f"{TEXT:,} are allowed" in error
    assert (await tools.page("main", limit=1))["total"] == 2


async def test_a_call_has_at_most_a_hundred_messages(tools: Tools) -> None:
    await tools.say("main", *["x"] * 100)
    assert await tools("add_messages", thread_id="main", messages=[]) == {"stored": 0, "seqs": ""}
    for count in (101, 200):
        await tools.refused("add_messages", thread_id="main", messages=[user("x")] * count)
    assert (await tools.page("main"))["total"] == 100


async def test_a_thread_id_has_1_to_255_characters_and_no_control_characters(tools: Tools) -> None:
    longest = "ü" * 255
    await tools.say(longest, "hello")
    assert await tools.texts(longest) == ["hello"]
    assert (await tools("list_threads", thread_id=longest))["threads"][0]["thread_id"] == longest
    calls: list[tuple[str, Json]] = [
        ("add_messages", {"messages": [user("x")]}),
        ("get_messages", {}),
        ("delete_messages", {"which": "all"}),
        ("recall_memory", {"query": "x"}),
        ("plan", {"action": "review"}),
        ("plan", {"action": "create", "plan": {"goal": "x"}}),
        ("get_working_memory", {}),
        ("update_working_memory", {"content": "x"}),
        ("clear_working_memory", {}),
        ("list_threads", {}),
        ("update_thread", {"title": "x"}),
        ("delete_thread", {}),
    ]
    for tool, arguments in calls:
        for unfit in (longest + "x", "a\nb", "a\x00b"):
            assert "thread_id: " in await tools.refused(tool, thread_id=unfit, **arguments)


async def test_metadata_has_at_most_16_kib(tools: Tools) -> None:
    fits = {"k": "é" * ((METADATA - len('{"k":""}')) // 2)}
    over = {"k": fits["k"] + "x"}
    assert len(json.dumps(fits, ensure_ascii=False, separators=(",", ":")).encode()) == METADATA
    await tools.add("main", user("x", metadata=fits))
    await tools("update_thread", thread_id="main", metadata=fits)
    assert [row["thread_id"] for row in (await tools("list_threads", metadata=fits))["threads"]] == ["main"]
    assert (await tools.messages("main"))[0]["metadata"] == fits
    await tools.refused("add_messages", thread_id="main", messages=[user("x", metadata=over)])
    await tools.refused("update_thread", thread_id="main", metadata=over)
    await tools.refused("list_threads", metadata=over)
    merged = await tools.refused("update_thread", thread_id="main", metadata={"one": "more"})
    assert "after merging" in merged
    assert (await tools("list_threads"))["threads"][0]["metadata"] == fits


@pytest.mark.parametrize("redaction", ["all", "derived", "off"])
async def test_json_is_at_most_64_deep_wherever_it_is(connect: Connect, redaction: str) -> None:
    def result(value: Any) -> Json:
        return {"role": "tool", "parts": [{"type": "tool_result", "tool_call_id": "c", "result": value}]}

    makers = (
        lambda depth: user("x", metadata={"k": nested(depth - 1)}),
        lambda depth: calling(nested(depth - 1)),
        lambda depth: result(nested(depth)),
        lambda depth: user("x", files=[{"file_name": "a", "metadata": {"k": nested(depth - 1)}}]),
    )
    async with connect(redaction=redaction) as tools:
        for number, make in enumerate(makers):
            thread = f"t{number}"
            await tools.add(thread, make(64))
            assert "64" in await tools.refused("add_messages", thread_id=thread, messages=[make(65)])
            (kept,) = await tools.messages(thread)
            await tools.add(f"{thread} again", kept)
        (kept,) = await tools.messages("t1")
        assert kept["parts"][0]["arguments"] == {"k": nested(63)}
        assert (await tools("update_thread", thread_id="t0", metadata={"k": nested(63)}))["metadata"]
        await tools.refused("update_thread", thread_id="t0", metadata={"k": nested(64)})
        await tools.refused("list_threads", metadata={"k": nested(64)})


async def test_a_window_has_at_most_16_kib(tools: Tools) -> None:
    def window(chars: int) -> Json:
        return {"limit": "observed", "predefined": [{"role": "user", "parts": [{"type": "text", "text": "x" * chars}]}]}

    fits = METADATA - len(json.dumps(window(0), separators=(",", ":")))
    assert (await tools("update_thread", thread_id="main", window=window(fits)))["window"] == window(fits)
    for over in (window(fits + 1), json.dumps(window(fits + 1))):
        error = await tools.refused("update_thread", thread_id="main", window=over)
        assert error == f"window: {METADATA + 1:,} bytes of JSON; at most {METADATA:,} are allowed"
    deep = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": nested(64)}]}
    assert "64 are allowed" in await tools.refused("update_thread", thread_id="main", window={"predefined": [deep]})
    assert (await tools("list_threads"))["threads"][0]["window"] == window(fits)


async def test_a_window_has_at_most_16_kib_with_what_it_is_set_over(connect: Connect) -> None:
    predefined = [{"role": "user", "content": "x" * METADATA}]
    async with connect(windows={"long": {"predefined": predefined}}) as tools:
        assert (await tools("update_thread", thread_id="main", window="long"))["window"] == "long"
        error = await tools.refused("update_thread", thread_id="main", window={"profile": "long", "max_images": 2})
        assert "with what it is set over; at most 16,384 are allowed" in error
        own = {"profile": "long", "predefined": []}
        assert (await tools("update_thread", thread_id="main", window=own))["window"] == {"limit": "observed"}


async def test_a_title_has_at_most_255_characters(tools: Tools) -> None:
    assert (await tools("update_thread", thread_id="main", title="ü" * 255))["title"] == "ü" * 255
    assert "255" in await tools.refused("update_thread", thread_id="main", title="ü" * 256)


async def test_ids_and_names_have_at_most_255_characters(tools: Tools) -> None:
    await tools.add("main", user("x", id="i" * 255, name="n" * 255))
    for unfit in ({"id": "i" * 256}, {"name": "n" * 256}, {"id": "a\nb"}):
        await tools.refused("add_messages", thread_id="main", messages=[user("x", **unfit)])
    assert len(await tools.messages("main")) == 1


@pytest.mark.databases
@pytest.mark.parametrize("bad", ["\x00", "\ud800", "x\udfffy"], ids=["NUL", "high half", "low half"])
async def test_nul_and_lone_surrogates_are_refused_wherever_they_are(tools: Tools, bad: str) -> None:
    messages: list[Any] = [
        user(bad),
        user([{"type": "text", "text": bad}]),
        user("x", id=bad),
        user("x", name=bad),
        user("x", metadata={"k": bad}),
        json.dumps(user("x", metadata={bad: 1})),
        user("x", files=[{"file_name": bad}]),
        calling(bad),
        json.dumps(user(bad)),
    ]
    for message in messages:
        await tools.refused("add_messages", thread_id="main", messages=message, idempotency_key="k")
    calls: list[tuple[str, Json]] = [
        ("update_thread", {"title": bad}),
        ("update_thread", {"metadata": {"k": bad}}),
        ("update_thread", {"metadata": json.dumps({bad: None})}),
        ("update_thread", {"window": bad}),
        ("update_thread", {"window": {"summary_prompt": bad}}),
        ("update_thread", {"window": {"predefined": [{"role": "user", "content": bad}]}}),
        ("update_thread", {"window": json.dumps({"profile": bad})}),
        ("plan", {"action": "create", "plan": {"goal": bad}}),
        ("plan", {"action": "create", "plan": json.dumps({"goal": "x", "steps": [{"description": bad}]})}),
        ("update_working_memory", {"content": bad, "scope": "resource"}),
        ("list_threads", {"metadata": {"k": bad}}),
        ("list_threads", {"cursor": bad}),
        ("delete_messages", {"which": "ids", "ids": [bad]}),
        ("recall_memory", {"query": bad}),
        ("recall_memory", {"queries": ["x", bad]}),
        ("recall_memory", {"query": "x", "until": bad}),
    ]
    for tool, arguments in calls:
        await tools.refused(tool, **arguments)
    assert (await tools("list_threads"))["threads"] == []


async def test_limits_can_be_set(connect: Connect) -> None:
    async with connect(limits={"messages_per_call": 2, "message_text_bytes": 10}) as tools:
        await tools.say("main", "x" * 10, "y")
        assert "10 are allowed" in await tools.refused("add_messages", thread_id="main", messages=[user("x" * 11)])
        assert "2 are allowed" in await tools.refused("add_messages", thread_id="main", messages=[user("x")] * 3)


async def test_a_message_has_at_most_3_mib_of_media(tools: Tools) -> None:
    def image(size: int) -> Json:
        return {"role": "user", "parts": [{"type": "image", "mime_type": "image/png", "data": "A" * size}]}

    await tools.add("main", image(MEDIA))
    error = await tools.refused("add_messages", thread_id="main", messages=[image(MEDIA + 4)])
    assert f"{MEDIA + 4:,} bytes of base64; at most {MEDIA:,} are allowed in one message" in error
    assert (await tools.page("main", limit=1))["total"] == 1


async def test_a_recall_has_at_most_five_queries_and_a_long_one_counts_once(tools: Tools) -> None:
    await tools.say("main", "hello")
    await tools("recall_memory", queries=[*"abcd", "é" * 5000])
    assert "at most 5 in one call" in await tools.refused("recall_memory", queries=list("abcdef"))


async def test_of_a_query_over_2_kib_the_beginning_and_the_end_are_searched(tools: Tools) -> None:
    await tools.say("trip", "The walrus sleeps on the pier.", "The heron stands in the reeds.")
    log = "2026-11-24 09:00 INFO é " * 400
    asked = f"What does the heron do? {log} Where does the walrus sleep?"
    for tool in ("recall_memory", "get_context"):
        answer = await tools(tool, query=asked)
        assert "on the pier" in answer, tool
        assert "in the reeds" in answer, tool


async def test_every_number_is_held_to_the_bounds_of_its_argument(all_tools: Tools) -> None:
    """How many a page, a recall or an answer may have, wherever a tool lets a caller say; 0 is left out."""
    bounded = [
        (tool.name, name, schema[bound], beyond)
        for tool in DECLARATIONS
        for name, schema in tool.tool.fn_metadata.arg_model.model_json_schema()["properties"].items()
        for bound, beyond in (("maximum", 1), ("minimum", -1))
        if bound in schema
    ]
    assert {(tool, name) for tool, name, _, beyond in bounded if beyond == 1} >= {
        ("get_messages", "limit"),
        ("recall_memory", "limit"),
        ("recall_memory", "max_tokens"),
        ("get_context", "max_tokens"),
        ("list_threads", "limit"),
        ("list_steps", "limit"),
        ("list_events", "limit"),
        ("list_runs", "limit"),
    }
    for tool, name, bound, beyond in bounded:
        for value, fits in ((bound, True), (bound + beyond or -1, False), (beyond * 2**70, False)):
            result = await all_tools.raw(tool, **{name: value})
            told = text_of(result) if result.is_error else ""
            assert (f"{name}: Input should be" in told) is not fits, (tool, name, value, told)


async def test_an_entry_has_at_most_2000_characters(tools: Tools) -> None:
    assert (await tools("remember", content="ü" * 2000))["status"] == "kept"
    assert "2,001 characters; at most 2,000 are allowed" in await tools.refused("remember", content="ü" * 2001)


@pytest.mark.parametrize("scope", ["thread", "resource"])
async def test_a_document_has_at_most_16_kib(tools: Tools, scope: str) -> None:
    most = 16 * 1024
    place = {"scope": scope, **({"thread_id": "main"} if scope == "thread" else {})}
    await tools("update_working_memory", content="é" * (most // 2), **place)
    error = await tools.refused("update_working_memory", content="é" * (most // 2) + "x", **place)
    assert f"{most + 1:,} bytes; at most {most:,} are allowed" in error


async def test_a_plan_has_at_most_64_kib_and_200_steps(tools: Tools) -> None:
    def made(steps: int, chars: int) -> Json:
        plan = {"goal": "x" * chars, "steps": [{"description": "y"}] * steps}
        return {"action": "create", "plan": plan, "thread_id": "main", "format": "json"}

    await tools("plan", **made(200, 1))
    assert "at most 200 are allowed" in await tools.refused("plan", **made(201, 1))
    told = await tools.refused("plan", **made(1, 65_470))
    over = int(told.partition("plan: ")[2].partition(" bytes")[0].replace(",", "")) - 65_536
    await tools("plan", **made(1, 65_470 - over))
    assert "65,537 bytes of JSON in all; at most 65,536" in await tools.refused("plan", **made(1, 65_471 - over))


async def test_a_call_has_at_most_a_hundred_steps_of_64_kib_each(all_tools: Tools) -> None:
    def steps(count: int, chars: int) -> list[Json]:
        return [{"type": "text", "operation_id": "o", "content": "x" * chars}] * count

    await all_tools("record_steps", steps=steps(100, 1), thread_id="main")
    refused = "101 in one call; at most 100 are allowed"
    assert refused in await all_tools.refused("record_steps", steps=steps(101, 1), thread_id="main")
    told = await all_tools.refused("record_steps", steps=steps(1, 65_536), thread_id="main")
    over = int(told.partition("steps[0]: ")[2].partition(" bytes")[0].replace(",", "")) - 65_536
    await all_tools("record_steps", steps=steps(1, 65_536 - over), thread_id="main")
    told = await all_tools.refused("record_steps", steps=steps(1, 65_537 - over), thread_id="main")
    assert "65,537 bytes of JSON; at most 65,536 are allowed" in told


async def test_a_runs_state_has_at_most_1_mib(all_tools: Tools) -> None:
    most = 1024 * 1024 - len('""')
    await all_tools("suspend_run", run_id="r", state="x" * most, thread_id="main")
    error = await all_tools.refused("suspend_run", run_id="s", state="x" * (most + 1), thread_id="main")
    assert "1,048,577 bytes of JSON; at most 1,048,576 are allowed" in error
