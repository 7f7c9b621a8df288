"""Secrets on their way in: masked, masked in the index only, or kept. They are made up at run time."""

import json
import random
import re
import string
from collections.abc import Callable

import pytest
from mcp.types import ImageContent

from layerlore.memory.engine.engine import Sent
from layerlore.memory.removal import undo
from layerlore.server.runtime.runtime import open_engine
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.records import Origin, Scope

from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio


def made_up(seed: int) -> str:
    letters = string.ascii_letters + string.digits
    return "gh" + "p_" + "".join(random.Random(seed).choices(letters, k=36))


ONE, TWO, THREE = made_up(1), made_up(2), made_up(3)
MARK = re.compile(r"\[masked:github-token:[0-9a-f]{8}\]")


async def everything(tools: Tools) -> str:
    """All that the tools show of the scope."""
    threads = await tools("list_threads")
    pages = [await tools.page(row["thread_id"], limit=200) for row in threads["threads"]]
    return json.dumps([threads, pages])


SECRET_MESSAGES: list[tuple[Json, int]] = [
    ({"role": "user", "content": f"my token is {ONE}, and {TWO}"}, 2),
    ({"role": "user", "content": [f"first {ONE}", {"type": "text", "text": f"then {TWO}"}]}, 2),
    ({"role": "user", "name": ONE, "content": "hello"}, 1),
    ({"role": "user", "content": "hello", "metadata": {"deep": [{"token": ONE}], TWO: "as a key"}}, 2),
    ({"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": [ONE]}}}]}, 1),
    ({"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": f"no JSON {ONE}"}}]}, 1),
    ({"role": "tool", "tool_call_id": "c", "content": f"it says {ONE}"}, 1),
    ({"role": "user", "content": "see", "files": [{"file_name": f"{ONE}.txt", "metadata": {"k": TWO}}]}, 2),
    ({"role": "user", "content": [{"type": "image_url", "image_url": f"https://x.test/?key={ONE}"}]}, 1),
    ({"role": "assistant", "content": [{"type": "thinking", "thinking": f"hm, {ONE}", "signature": "c2ln"}]}, 1),
]


async def test_secrets_are_masked_wherever_they_come_in_and_the_answer_counts_them(tools: Tools) -> None:
    for number, (message, secrets) in enumerate(SECRET_MESSAGES):
        answer = await tools.add(f"t{number}", message)
        assert answer["masked"] == secrets, message
    shown = await everything(tools)
    assert not [secret for secret in (ONE, TWO) if secret in shown]
    assert len(set(MARK.findall(shown))) == 2
    assert await tools.found(ONE) == []
    assert "masked" not in await tools.say("clean", "nothing to hide")


async def test_titles_and_metadata_of_threads_are_masked_and_counted(tools: Tools) -> None:
    answer = await tools("update_thread", thread_id="main", title=f"key {ONE}", metadata={"a": {"b": TWO}, "c": ONE})
    assert answer["masked"] == 3
    assert MARK.fullmatch(answer["metadata"]["c"])
    assert answer["title"] == f"key {answer['metadata']['c']}"
    shown = await everything(tools)
    assert not [secret for secret in (ONE, TWO) if secret in shown]
    assert "masked" not in await tools("update_thread", thread_id="main", title="clean")


async def test_what_a_window_says_is_masked_and_counted(tools: Tools) -> None:
    predefined = [
        {"role": "user", "name": ONE, "content": f"use {TWO}"},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": [ONE]}}}]},
    ]
    window = {"summarise": True, "summary_prompt": f"never say {ONE}", "predefined": predefined}
    answer = await tools("update_thread", thread_id="main", window=window)
    assert answer["masked"] == 4
    kept = answer["window"]
    assert len(set(MARK.findall(json.dumps(kept)))) == 2
    assert MARK.fullmatch(kept["predefined"][0]["name"])
    shown = await everything(tools)
    assert not [secret for secret in (ONE, TWO) if secret in shown]
    # What was shown can be set again, and nothing is left to mask.
    again = await tools("update_thread", thread_id="other", window=kept)
    assert (again["window"], again.get("masked")) == (kept, None)


async def test_the_same_secret_leaves_the_same_mark_so_a_message_sent_again_is_unchanged(tools: Tools) -> None:
    message = {"role": "user", "content": f"use {ONE}", "id": "m1"}
    await tools.add("main", message)
    again = await tools.add("main", message)
    assert again["messages"][0]["status"] == "unchanged"
    (text,) = await tools.texts("main")
    assert MARK.fullmatch(text.removeprefix("use "))
    await tools.refused(
        "add_messages", thread_id="main", messages=[{"role": "user", "content": f"use {TWO}", "id": "m1"}]
    )


async def test_what_is_masked_can_be_found_by_the_rest_of_its_text(tools: Tools) -> None:
    await tools.say("main", f"the deploy token is {ONE}")
    (text,) = await tools.found("deploy")
    assert MARK.search(text)


async def test_base64_and_signatures_stay_as_they_are(tools: Tools) -> None:
    encoded = "QUtJQUFBQUFBQUFBQUFBQQ=="
    parts = [
        {"type": "reasoning", "text": "hm", "signature": f"/AKIA{'A' * 16}/"},
        {"type": "image", "data": encoded, "mime_type": "image/png"},
    ]
    assert "masked" not in await tools.add("main", {"role": "assistant", "parts": parts})
    reasoning, note = (await tools.messages("main"))[0]["parts"]
    assert reasoning == parts[0]
    content = (await tools.raw("get_messages", thread_id="main", part=note["part"])).content[1]
    assert isinstance(content, ImageContent)
    assert content.data == encoded


async def test_no_error_repeats_a_secret(tools: Tools) -> None:
    assert ONE not in await tools.refused("delete_thread", thread_id=ONE)
    assert ONE not in await tools.refused("add_messages", thread_id="t", messages=[{"role": ONE, "content": "x"}])
    assert ONE not in await tools.refused("recall_memory", query="x", since=ONE)


async def test_derived_keeps_the_text_and_leaves_the_secret_out_of_the_index(
    connect: Connect, settings_for: Callable[..., Settings]
) -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": {"password": THREE}}}
    async with connect(redaction="derived") as tools:
        answer = await tools.add(
            "main",
            {"role": "user", "content": f"the deploy token is {ONE}", "id": "m1"},
            {"role": "user", "name": TWO, "content": "hello", "id": "m2"},
            {"role": "assistant", "tool_calls": [call], "id": "m3"},
        )
        assert "masked" not in answer
        assert (await tools.texts("main", limit=1, offset=0)) == [f"the deploy token is {ONE}"]
        assert await tools.found("deploy", neighbours=False) == [f"the deploy token is {ONE}"]
        for secret in (ONE, TWO, THREE):
            assert await tools.found(secret) == []
        deleted = await tools("delete_messages", which="all", thread_id="main")
        engine = await open_engine(settings_for(redaction="derived"))
        await undo.undo(
            engine, Scope("local", "default", "default"), deleted["undo"], sent=Sent(Origin("test", "undo"))
        )
        await engine.database.close()
        assert await tools.found("deploy", neighbours=False) == [f"the deploy token is {ONE}"]
        for secret in (ONE, TWO, THREE):
            assert await tools.found(secret) == []


async def test_what_was_kept_as_sent_stays_out_of_an_index_that_is_made_under_all(
    connect: Connect, settings_for: Callable[..., Settings]
) -> None:
    async with connect(redaction="derived") as tools:
        await tools.add("main", {"role": "user", "content": f"the deploy token is {ONE}", "id": "m1"})
        deleted = await tools("delete_messages", which="all", thread_id="main")
    engine = await open_engine(settings_for(redaction="all"))
    await undo.undo(engine, Scope("local", "default", "default"), deleted["undo"], sent=Sent(Origin("test", "undo")))
    await engine.database.close()
    async with connect(redaction="derived") as tools:
        assert await tools.found("deploy") == [f"the deploy token is {ONE}"]
        assert await tools.found(ONE) == []


async def test_off_masks_nothing(connect: Connect) -> None:
    async with connect(redaction="off") as tools:
        assert "masked" not in await tools.say("main", f"the deploy token is {ONE}")
        assert await tools.texts("main") == [f"the deploy token is {ONE}"]
        assert await tools.found(ONE) == [f"the deploy token is {ONE}"]


@pytest.mark.parametrize(("redaction", "told"), [("all", False), ("derived", True), ("off", True)])
async def test_the_status_says_when_secrets_are_kept(connect: Connect, redaction: str, told: bool) -> None:
    async with connect(redaction=redaction) as tools:
        assert any("redaction" in line for line in (await tools("memory_status"))["degraded"]) is told


PASSWORD = "falcon-2867"


async def test_a_password_is_masked_by_its_name_wherever_it_is_stored(connect: Connect) -> None:
    login = {"user": "bob", "password": PASSWORD}
    told = f"db:\n  password: {PASSWORD}"
    thread: Json = {"thread_id": "main"}
    call = {"id": "c", "function": {"name": "login", "arguments": login}}
    as_text = {"id": "d", "function": {"name": "login", "arguments": json.dumps(login)}}
    async with connect(toolsets="all") as tools:
        answers = [
            await tools.add("main", {"role": "assistant", "tool_calls": [call, as_text]}),
            await tools.add("main", {"role": "tool", "tool_call_id": "c", "content": json.dumps({"result": login})}),
            await tools.say("main", f"DB_PASSWORD={PASSWORD}"),
            await tools("update_thread", **thread, metadata=login),
            await tools("update_working_memory", **thread, content=told),
            await tools("plan", **thread, action="create", plan={"goal": told, "steps": [{"description": "wait"}]}),
            await tools("log_attempt", **thread, task_key="k", action=f"mysql -p{PASSWORD}", result="ok"),
            await tools("remember", content=f"The password of the wifi is {PASSWORD}."),
            await tools("record_steps", **thread, steps=[{"type": "Error", "payload": login}]),
        ]
        counts = [each["masked"] for each in answers if isinstance(each, dict)]
        assert (counts[0], set(counts[1:])) == (2, {1})
        shown = [
            await everything(tools),
            await tools("get_context", **thread),
            await tools("get_briefing", **thread, task="log in"),
        ]
        shown += [await tools("list_steps", **thread), await tools("list_events", **thread), answers]
        assert PASSWORD not in str(shown)
        assert "bob" in str(shown)
        assert await tools.found(PASSWORD) == []


@pytest.mark.parametrize("unseen", ["\u200b", "\u00ad"])
async def test_a_character_that_nobody_sees_hides_no_secret(tools: Tools, unseen: str) -> None:
    parted = ONE[:20] + unseen + ONE[20:]
    message = {"role": "user", "content": f"the token is {parted}", "metadata": {"a": parted}}
    assert (await tools.add("main", message))["masked"] == 2
    assert (await tools("remember", content=f"The token is {parted}."))["masked"] == 1
    assert (await tools("update_thread", thread_id="main", title=parted))["masked"] == 1
    shown = str([await everything(tools), await tools("get_context", thread_id="main")])
    assert len(set(MARK.findall(shown))) == 1
    assert ONE not in shown.replace(unseen, "")


async def test_what_was_stored_with_a_character_that_nobody_sees_is_not_shown_without_it(connect: Connect) -> None:
    parted = ONE[:20] + "\u200b" + ONE[20:]
    async with connect(redaction="off") as tools:
        await tools.say("main", f"the token is {parted}")
        await tools("update_thread", thread_id="main", title=f"about {parted}")
    for redaction in ("all", "derived"):
        async with connect(redaction=redaction) as tools:
            shown = [await tools("get_context", thread_id="main"), await tools("list_threads")]
            shown += [await tools("recall_memory", query="token")]
            assert "the token is" in str(shown)
            assert ONE not in str(shown)
