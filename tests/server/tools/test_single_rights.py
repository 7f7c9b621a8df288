"""What is stored reaches nobody without the right ``read``: every tool, resource, prompt and completion, with each right
alone and with all but that one."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layerlore.server.access.principal import RIGHTS, Right
from layerlore.server.prompts.prompts import PROMPTS
from layerlore.server.runtime.server_builder import build_server
from layerlore.server.settings.settings import load_settings
from layerlore.server.tools.declaration import Declaration, drop_stored
from layerlore.server.tools.toolsets import DECLARATIONS
from layerlore.storage.core.records import Scope

from .calling import Json
from .isolation_filling import NAMES, Filling, Words
from .isolation_world import SETTINGS, Person, World, world
from .sample_calls import sample_call

pytestmark = pytest.mark.anyio

WORD = re.compile(r"zqown\d+canary")
WITHOUT_READ: list[frozenset[Right]] = [
    *(frozenset({right}) for right in RIGHTS if right != "read"),
    frozenset(RIGHTS) - {"read"},
]
ALIKE = "The spare key of the zqown1canary boathouse hangs behind the green shed."
SAYS_THE_SAME = "Behind the green shed hangs the spare key of the ZQOWN1CANARY boathouse."
# Calls beside those that fill a memory: the tools that only read, and answers that repeat what is stored.
MORE: list[tuple[str, Json]] = [
    ("get_context", {"thread_id": "thread-ledger"}),
    ("get_briefing", {"task": "look", "thread_id": "thread-ledger", "task_key": "task-thread-ledger"}),
    ("memory_status", {}),
    ("get_run", {"run_id": "run-ended", "with_state": True}),
    ("list_events", {"thread_id": "thread-ledger", "limit": 200}),
    ("get_working_memory", {"thread_id": "thread-ledger"}),
    ("clear_working_memory", {"thread_id": "thread-orchard"}),
    ("recall_memory", {"query": "zqown1canary"}),
    ("forget", {"query": "zqown1canary"}),
    ("remember", {"content": SAYS_THE_SAME}),
    ("plan", {"action": "update", "plan": {"iteration": 7}, "thread_id": "thread-ledger", "format": "json"}),
    ("plan", {"action": "update", "plan": {"iteration": 8}, "thread_id": "thread-ledger"}),
    ("plan", {"action": "create", "plan": {"goal": "Another"}, "thread_id": "thread-ledger", "format": "json"}),
    ("plan", {"action": "create", "plan": {"goal": "One more"}, "thread_id": "thread-ledger"}),
    ("update_thread", {"metadata": {"seen": True}, "thread_id": "thread-orchard"}),
    ("resume_run", {"run_id": "run-waits"}),
    ("suspend_run", {"run_id": "run-waits", "state": 1, "thread_id": "thread-orchard"}),
    ("complete_run", {"run_id": "run-waits", "claim": "mine"}),
    ("start_run", {"run_id": "run-waits"}),
    ("update_run", {"run_id": "run-taken", "claim": "mine"}),
    ("decide_run", {"run_id": "run-waits", "decisions": [{"data": 1}]}),
]


@asynccontextmanager
async def filled(folder: Path, settings: Json = {}) -> AsyncIterator[tuple[World, Filling]]:  # noqa: B006 - not changed
    url = f"sqlite:///{folder}/memory.db"
    mcp = build_server(load_settings({"database": url, **SETTINGS, **settings}, environ={}))
    async with world(url, mcp=mcp) as server, server.client("modern") as client:
        owner = Person(client, Scope("tenant", "bot", "ana"))
        filling = Filling(owner, Words("own"), (await server.process.runtime()).engine)
        filling.words()
        yield server, filling


def with_rights(person: Person, rights: frozenset[Right]) -> Person:
    other = Person(person.client, person.scope)
    other.principal = replace(person.principal, name=f"key:{'-'.join(sorted(rights))}", rights=rights)
    return other


def neutral(value: Any) -> Any:
    """What is sent, but for the words: who sends a word may get it back."""
    if isinstance(value, dict):
        return {neutral(key): neutral(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [neutral(inner) for inner in value]
    return WORD.sub("anything", value) if isinstance(value, str) else value


def calls_of(filling: Filling) -> list[tuple[str, Json]]:
    """Every call that filled the memory, and more: a query keeps its words, or it would find nothing."""
    made = [
        (tool, {**neutral(arguments), **({"query": arguments["query"]} if "query" in arguments else {})})
        for tool, arguments, _ in filling.calls
    ]
    called = {tool for tool, _ in [*MORE, *made]}
    rest = {each.name for each in DECLARATIONS} - called
    return [*((tool, sample_call(tool, NAMES)) for tool in sorted(rest)), *MORE, *made]


async def test_nothing_that_is_stored_is_answered_without_the_right_to_read(tmp_path: Path) -> None:
    leaked: dict[str, str] = {}
    async with filled(tmp_path) as (_, filling):
        await filling.do("remember", content=ALIKE)
        await filling.everything()
        calls = calls_of(filling)
        uris = [*await filling.uris(), "memory://threads/thread-ledger/messages", "memory://recall?query=cellar"]
        for rights in WITHOUT_READ:
            person = with_rights(filling.person, rights)
            for tool, arguments in calls:
                answer = await person.call(tool, arguments)
                asked = arguments.get("query", "")
                if WORD.search(str(answer).replace(asked, "") if asked else str(answer)):
                    leaked[f"{tool} {arguments} with {sorted(rights)}"] = str(answer)
            beside: list[tuple[str, Json]] = [("list", {}), *(("read", {"uri": uri}) for uri in uris)]
            beside += [("prompt", {"name": name, "arguments": {}}) for name in PROMPTS]
            beside += [("complete", {"of": "load_memory", "argument": "thread_id", "value": ""})]
            beside += [("complete", {"of": "memory://runs/{run_id}", "argument": "run_id", "value": ""})]
            for method, given in beside:
                answer = await person.ask(method, given)
                if WORD.search(str(answer)):
                    leaked[f"{method} {given} with {sorted(rights)}"] = str(answer)
                assert answer["error"] or method == "list", (method, given)
    assert not leaked


async def test_only_keys_that_are_declared_so_hold_what_is_stored(tmp_path: Path) -> None:
    """So that a tool whose answer gets a new key with content needs the right for it."""
    held: set[str] = set()
    declared = {each.name: each for each in DECLARATIONS}
    async with filled(tmp_path) as (_, filling):
        await filling.do("remember", content=ALIKE)
        await filling.everything()
        for tool, arguments in calls_of(filling):
            answer = await filling.person.call(tool, arguments)
            texts = [] if answer["error"] else [text for text in answer["texts"] if WORD.search(text)]
            if texts:
                held.add(tool)
                told = declared[tool]
                assert told.shows_stored, f"{tool} answers with what is stored, and does not say so"
                if not told.text:
                    rest = drop_stored(told.answers, json.loads(texts[0]))
                    assert not WORD.search(json.dumps(rest)), (tool, rest)
    shows = {name for name, each in declared.items() if each.shows_stored}
    # What a job is refused for is told of an answer that was sent.
    assert held == shows - {"submit_memory_job"}


def needed(each: Declaration) -> Sequence[frozenset[Right]]:
    return [each.needs(way) for way in each.ways]


def test_whatever_shows_what_is_stored_needs_the_right_to_read_or_says_what_it_answers_without() -> None:
    alone = {each.name for each in DECLARATIONS if any("read" not in way for way in needed(each))}
    for each in DECLARATIONS:
        if each.shows_stored and not each.reduced:
            assert each.name not in alone
    assert {each.name for each in DECLARATIONS if each.reduced} == {
        "plan",
        "remember",
        "forget",
        "update_thread",
        "update_working_memory",
        "clear_working_memory",
        "update_run",
    }
    both = {each.name for each in DECLARATIONS if frozenset({"read", "write"}) in needed(each)}
    assert both == {"next_memory_job", "submit_memory_job", "resume_run", "undo"}


async def test_a_writer_is_told_which_right_is_missing_and_gets_the_rest_of_an_answer(tmp_path: Path) -> None:
    async with filled(tmp_path) as (_, filling):
        steps = [{"description": filling.words()}, {"description": filling.words()}]
        here = {"thread_id": "thread-ledger"}
        await filling.do("plan", action="create", plan={"goal": filling.words(), "steps": steps}, **here)
        await filling.do("update_thread", title=filling.words(), **here)
        writer = with_rights(filling.person, frozenset({"write"}))
        done = {"action": "update", "plan": {"steps": [{"id": "s1", "status": "completed"}]}, **here}
        (text,) = (await writer.call("plan", done))["texts"]
        assert text.splitlines()[:3] == ["Updated as revision 2.", "s1 [completed]", "s2 [pending]"]
        (text,) = (await writer.call("plan", {**done, "format": "json"}))["texts"]
        assert json.loads(text)["plan"] == {
            "steps": [{"id": "s1", "status": "completed"}, {"id": "s2", "status": "pending"}]
        }
        (text,) = (await writer.call("update_thread", {"title": "Mine", **here}))["texts"]
        assert json.loads(text).keys() == {"thread_id", "messages", "tokens", "created_at", "updated_at"}
        (text,) = (await writer.call("resume_run", {"run_id": "run"}))["texts"]
        assert text == "resume_run needs the rights read and write; this credential has write and lacks read"
        forgetter = with_rights(filling.person, frozenset({"forget"}))
        (text,) = (await forgetter.call("forget", {"query": "boat"}))["texts"]
        assert text == "forget needs the rights read and forget; this credential has forget and lacks read"
        (text,) = (await forgetter.call("forget", {"confirm": "no such"}))["texts"]
        assert text.startswith("confirm: no preview gave")


async def test_an_error_about_a_stored_document_tells_those_who_may_not_read_nothing_of_it(tmp_path: Path) -> None:
    loose: Json = {"type": "object"}
    strict = {**loose, "dependentSchemas": {"b": {"properties": {"a": {"type": "integer"}}}}}
    document = {"thread_id": "main"}
    for schema in (loose, strict):
        rules = {"working_memory": {"thread": {"format": "json", "json_schema": json.dumps(schema)}}}
        async with filled(tmp_path, rules) as (_, filling):
            if schema is loose:
                await filling.do("update_working_memory", content={"a": "zqown9canary", "b": 1}, **document)
                await filling.do("update_working_memory", content={"a": "zqown9canary"}, **document)
                continue
            writer = with_rights(filling.person, frozenset({"write"}))
            told = await writer.call("undo", {"undo_id": "last"})
            assert "does not fit the format, the schema or the size" in str(told)
            assert not WORD.search(str(told))
            for change in ({"content": {"b": 1}, "mode": "append"},):
                told = await filling.person.call("update_working_memory", {**change, **document})
                assert WORD.search(str(told)), "whoever may read is told what is wrong"
                told = await writer.call("update_working_memory", {**change, **document})
                assert told["error"]
                assert "right read" in str(told)
                assert not WORD.search(str(told))
