"""Retention: messages that go by themselves, the oldest first, where the settings say so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from layerlore.memory.engine.engine import Engine
from layerlore.memory.removal.deletion import retain
from layerlore.server.runtime import upkeep
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import JournalFilter
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import DAY_MS, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.removal import retention as stored_retention

from ...conftest import SettingsFor
from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_upkeep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention runs when a test says so."""

    async def nothing(engine: Engine) -> None:
        return

    monkeypatch.setattr(upkeep, "_retain", nothing)


@asynccontextmanager
async def opened(settings_for: SettingsFor, **rules: object) -> AsyncIterator[Engine]:
    engine = await open_engine(settings_for(retention=rules))
    try:
        yield engine
    finally:
        await close_engine(engine)


async def talk(tools: Tools, thread: str, turns: int) -> None:
    for turn in range(turns):
        await tools.add(
            thread,
            {"role": "user", "content": f"{thread}: question {turn} about quinces", "id": f"{thread}-q{turn}"},
            {"role": "assistant", "content": f"answer {turn}", "id": f"{thread}-a{turn}"},
        )


async def ids(tools: Tools, thread: str) -> list[str]:
    return [message["id"] for message in await tools.messages(thread)]


async def status(tools: Tools) -> Json:
    found: Json = (await tools("memory_status")).get("retention", {})
    return found


async def test_by_default_nothing_goes(tools: Tools, settings_for: SettingsFor) -> None:
    await talk(tools, "a", 3)
    async with opened(settings_for) as engine:
        assert await retain(replace(engine, now=lambda: engine.now() + 9999 * DAY_MS)) == 0
    assert len(await ids(tools, "a")) == 6
    assert await status(tools) == {}


@pytest.mark.databases
async def test_the_oldest_of_a_thread_go_as_with_a_delete_and_it_is_told(
    connect: Connect, settings_for: SettingsFor
) -> None:
    rules = {"thread_messages": 4}
    async with connect(toolsets="all", retention=rules) as tools:
        await talk(tools, "a", 4)
        await talk(tools, "b", 2)
        await tools.add("a", {"type": "custom", "id": "card", "data": {"x": 1}})
        async with opened(settings_for, **rules) as engine:
            assert await retain(engine) == 4
            assert await retain(engine) == 0
            lines = await engine.database.read_installation(journal_rows.read_lines, JournalFilter(), limit=9)
        assert await ids(tools, "a") == ["a-q2", "a-a2", "a-q3", "a-a3", "card"]
        assert len(await ids(tools, "b")) == 4
        told = [row.line for row in lines if row.line.tool == "retention"]
        assert [(line.principal, line.counts) for line in told] == [("server", {"deleted": 4})]
        [event] = (await tools("list_events", thread_id="a", types=["messages_deleted"]))["events"]
        assert "maintenance" in str(event)
        assert await status(tools) == {"thread_messages": 4, "distilled": "delete", "messages_gone": 4}
        assert "a: question 0" not in await tools("recall_memory", query="a question 0 about quinces")
        # An undo of the last act passes over what the server did.
        assert "nothing to undo" in await tools.refused("undo", undo_id="last")
        (act,) = (await tools("undo"))["acts"]
        assert (act["tool"], act["what"], act["thread_ids"]) == ("retention", "messages of 'a' deleted", ["a"])
        assert (await tools("undo", undo_id=act["undo_id"]))["messages"] == 4
        assert len(await ids(tools, "a")) == 9
        assert (await tools("undo", undo_id=act["undo_id"]))["already"]


@pytest.mark.databases
async def test_a_resource_keeps_its_newest_whatever_thread_they_are_in_and_calls_go_whole(
    connect: Connect, settings_for: SettingsFor
) -> None:
    rules = {"resource_messages": 3}
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {}}
    async with connect(retention=rules) as tools:
        await talk(tools, "a", 1)
        await tools.add("b", {"role": "assistant", "id": "call", "parts": [call]})
        await tools.add("b", {"role": "tool", "id": "result", "tool_call_id": "c1", "content": "found"})
        await talk(tools, "c", 1)
        async with opened(settings_for, **rules) as engine:
            # Of five messages two and a call go, and with the call its result.
            assert await retain(engine) == 4
            assert await retain(engine) == 0
        assert [await ids(tools, thread) for thread in "abc"] == [[], [], ["c-q0", "c-a0"]]


async def test_a_scope_in_which_it_fails_keeps_no_other_from_it(
    connect: Connect, settings_for: SettingsFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = {"thread_messages": 2}
    list_long = stored_retention.list_long

    async def fail_for_first(tx: Tx, scope: Scope, most: int) -> object:
        if scope.agent_id == "first":
            raise StorageUnavailable("the disk cannot be read")
        return await list_long(tx, scope, most)

    monkeypatch.setattr(stored_retention, "list_long", fail_for_first)
    async with connect(agent="first", retention=rules) as first, connect(agent="second", retention=rules) as second:
        await talk(first, "a", 2)
        await talk(second, "a", 2)
        async with opened(settings_for, **rules) as engine:
            with pytest.raises(ExceptionGroup, match="2 messages went"):
                await retain(engine)
        assert (len(await ids(first, "a")), len(await ids(second, "a"))) == (4, 2)


async def test_what_was_said_too_long_ago_goes(connect: Connect, settings_for: SettingsFor) -> None:
    rules = {"message_days": 30}
    async with connect(retention=rules) as tools:
        old = {"role": "user", "content": "old", "id": "old", "created_at": "2020-01-01"}
        await tools.add("a", old, {"role": "user", "content": "new", "id": "new"})
        async with opened(settings_for, **rules) as engine:
            assert await retain(engine) == 1
            assert await ids(tools, "a") == ["new"]
            then = engine.now() + 31 * DAY_MS
            assert await retain(replace(engine, now=lambda: then)) == 1
        assert await ids(tools, "a") == []
        assert (await status(tools))["messages_gone"] == 2


@pytest.mark.databases
async def test_what_was_distilled_stays_with_its_evidence_if_so_configured(
    connect: Connect, settings_for: SettingsFor
) -> None:
    rules = {"thread_messages": 2, "distilled": "keep"}
    async with connect(toolsets="all", retention=rules) as tools:
        told = {"role": "user", "content": "My sister Alma is allergic to quinces.", "id": "fact"}
        await tools.add("a", told, {"role": "assistant", "content": "Noted.", "id": "noted"})
        await tools("remember", content="Alma is allergic to quinces.", evidence=told["content"], thread_id="a")
        await tools("update_working_memory", content="Alma: no quinces", thread_id="a")
        await talk(tools, "a", 3)
        async with opened(settings_for, **rules) as engine:
            assert await retain(engine) == 5
            assert await retain(engine) == 0
        assert await ids(tools, "a") == ["fact", "a-q2", "a-a2"]
        assert "Alma is allergic" in await tools("recall_memory", query="Who is allergic to quinces?")
        assert "no quinces" in await tools("get_working_memory", thread_id="a")
        context = await tools("get_context", thread_id="a", format="json")
        assert context["report"].get("left_out", []) == []
        # Erased at once, so no act is there to undo.
        assert [act for act in (await tools("undo"))["acts"] if act["tool"] == "retention"] == []
        again = await tools.add("a", {"role": "assistant", "content": "Noted.", "id": "noted"})
        assert again["skipped_deleted"] == ["noted"]
        assert await status(tools) == {"thread_messages": 2, "distilled": "keep", "messages_gone": 5}
