"""A write sent again with its key does nothing and gets the first answer again."""

from typing import Any

import pytest

from .calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio


KEY = "layerlore/idempotency-key"
HELLO = {"role": "user", "content": "hello"}
GOODBYE = {"role": "user", "content": "goodbye"}

# Each write, and the same with another body.
WRITES: list[tuple[str, Json, Json]] = [
    ("add_messages", {"messages": [HELLO], "thread_id": "main"}, {"messages": [GOODBYE], "thread_id": "main"}),
    ("delete_messages", {"which": "last_turn", "thread_id": "main"}, {"which": "all", "thread_id": "main"}),
    ("update_thread", {"thread_id": "main", "title": "A"}, {"thread_id": "main", "title": "B"}),
    ("update_thread", {"thread_id": "main", "window": "default"}, {"thread_id": "main", "window": ""}),
    (
        "plan",
        {"action": "create", "plan": {"goal": "A"}, "thread_id": "main"},
        {"action": "create", "plan": {"goal": "B"}, "thread_id": "main"},
    ),
    ("update_working_memory", {"content": "A", "thread_id": "main"}, {"content": "B", "thread_id": "main"}),
    ("clear_working_memory", {"thread_id": "main"}, {"thread_id": "other"}),
    ("delete_thread", {"thread_id": "main"}, {"thread_id": "other"}),
]


async def state(tools: Tools) -> tuple[Any, list[str]]:
    threads = (await tools("list_threads"))["threads"]
    return threads, [text for thread in threads for text in await tools.texts(thread["thread_id"])]


@pytest.mark.databases
@pytest.mark.parametrize(("tool", "body", "other"), WRITES, ids=[tool for tool, _, _ in WRITES])
async def test_a_write_sent_again_gets_the_first_answer_and_changes_nothing(
    tools: Tools, tool: str, body: Json, other: Json
) -> None:
    await tools.say("main", "one", "two", "three")
    await tools.say("other", "four")
    first = await tools(tool, meta={KEY: "k1"}, **body)
    after = await state(tools)
    assert await tools(tool, meta={KEY: "k1"}, **body) == first
    assert await state(tools) == after
    error = await tools.refused(tool, meta={KEY: "k1"}, **other)
    assert "'k1'" in error
    assert "new key" in error
    assert await state(tools) == after
    await tools(tool, meta={KEY: "k2"}, **other)


async def test_add_messages_takes_its_key_as_an_argument_too(tools: Tools) -> None:
    first = await tools.say("main", "hello", idempotency_key="k1")
    assert await tools.say("main", "hello", idempotency_key="k1") == first
    assert await tools.say("main", "hello", meta={KEY: "k1"}) == first
    assert "k1" in await tools.refused("add_messages", messages=[HELLO, HELLO], idempotency_key="k1")
    assert await tools.texts("main") == ["hello"]


async def test_the_same_messages_in_another_shape_are_the_same_body(tools: Tools) -> None:
    first = await tools.add("main", HELLO, idempotency_key="k1")
    text = '{"content": "hello", "role": "user"}'
    again = await tools("add_messages", messages=text, thread_id="main", idempotency_key="k1", ids=True)
    assert again == first
    assert await tools.texts("main") == ["hello"]


@pytest.mark.databases
async def test_a_key_holds_across_processes_but_not_across_scopes(connect: Connect) -> None:
    async with connect(resource="ana") as tools:
        first = await tools.say("main", "hello", idempotency_key="k1")
    async with connect(resource="ana") as again, connect(resource="ben") as other:
        assert await again.say("main", "hello", idempotency_key="k1") == first
        assert await other.say("main", "another", idempotency_key="k1") != first
        assert await other.texts("main") == ["another"]


async def test_a_refused_write_does_not_use_its_key_up(tools: Tools) -> None:
    bad = {"role": "user", "content": "half a pair \ud83d"}
    assert "U+D83D" in await tools.refused("add_messages", messages=[bad], thread_id="main", idempotency_key="k1")
    await tools.refused("delete_thread", thread_id="main", meta={KEY: "k1"})
    await tools.say("main", "hello", idempotency_key="k1")
    assert await tools.texts("main") == ["hello"]


async def test_an_unfit_key_is_refused(tools: Tools) -> None:
    assert "255" in await tools.refused("add_messages", messages=[HELLO], idempotency_key="k" * 256)
    assert "NUL" in await tools.refused("add_messages", messages=[HELLO], idempotency_key="k\x00")
    assert "must be a string" in await tools.refused("add_messages", messages=[HELLO], meta={KEY: 7})
    await tools.say("main", "hello", idempotency_key="k" * 255)
    assert (await tools("memory_status"))["counts"]["messages"] == 1


async def test_a_request_sent_again_to_a_new_process_is_the_same_request(connect: Connect) -> None:
    """Without a thread each process has its own: the request is what was sent, not what it was taken for."""
    async with connect() as tools:
        first = await tools("add_messages", messages=[HELLO], idempotency_key="K", ids=True)
    async with connect() as tools:
        assert await tools("add_messages", messages=[HELLO], idempotency_key="K", ids=True) == first
        assert len(await tools.texts(first["thread_id"])) == 1


async def test_what_is_kept_of_an_answer_holds_no_text(tools: Tools, database_url: str) -> None:
    window = {"predefined": [{"role": "user", "content": "my knee hurts"}]}
    body = {"thread_id": "main", "title": "Surgery", "metadata": {"reason": "knee"}, "window": window}
    first = await tools("update_thread", meta={KEY: "k"}, **body)
    assert (first["title"], first["metadata"]) == ("Surgery", {"reason": "knee"})
    assert first["window"]["predefined"][0]["role"] == "user"
    await tools("delete_thread", thread_id="main")
    again = await tools("update_thread", meta={KEY: "k"}, **body)
    assert "title" not in again
    assert "metadata" not in again
    assert "window" not in again
