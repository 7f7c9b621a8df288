"""Some hundred words of each of two tenants: none is in anything of the other's, and none in any log or error."""

import functools
import logging
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from scripted_chat import ScriptedChat

from layerlore.extraction.chat.chat_port import ChatAnswer
from layerlore.extraction.jobs.registry import make_kinds
from layerlore.extraction.jobs.worker import JobWorker, Pace
from layerlore.extraction.kinds.kind import Material
from layerlore.server.command_line.commands.forget import run_undo as undo_command
from layerlore.server.command_line.commands.jobs import show_jobs as jobs_command
from layerlore.server.command_line.commands.recall import run_recall as recall_command
from layerlore.server.command_line.commands.usage import By
from layerlore.server.command_line.commands.usage import show_usage as usage_command
from layerlore.server.runtime import runtime
from layerlore.server.settings.settings import load_settings
from layerlore.storage.core.records import Scope

from .calling import Json
from .isolation_filling import NOTED, Filling, Words
from .isolation_world import SETTINGS, Person, World, world

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

EACH = 300
BY: tuple[By, ...] = ("thread", "resource", "agent")
ASKED = 6
"""Of the other's words, as queries."""
WORD = re.compile(r"zq(one|two)\d+canary")
PACE = Pace(beat_seconds=0.5, poll_seconds=0.05, gather_seconds=0.0)
# Calls that are refused, with a word where it is no name of anything.
REFUSED: list[tuple[str, Json]] = [
    ("add_messages", {"messages": [{"role": "user", "content": "WORD", "contnet": 1}], "thread_id": "thread-ledger"}),
    ("add_messages", {"messages": [{"role": "tool", "content": {"WORD": "WORD"}}], "thread_id": "thread-ledger"}),
    ("update_working_memory", {"content": "WORD", "expected_version": 77, "thread_id": "thread-ledger"}),
    (
        "plan",
        {
            "action": "update",
            "plan": {"steps": [{"id": "no-such", "description": "WORD"}]},
            "thread_id": "thread-ledger",
        },
    ),
    ("plan", {"action": "create", "plan": {"goal": ["WORD"]}, "thread_id": "thread-ledger"}),
    ("remember", {"content": "WORD is kept", "evidence": "WORD was never said"}),
    ("record_steps", {"steps": [{"type": "text", "content": "WORD"}], "thread_id": "thread-ledger"}),
    ("record_steps", {"steps": [{"type": "TurnEnd", "payload": ["WORD"]}], "thread_id": "thread-ledger"}),
    ("suspend_run", {"run_id": "run-ended", "state": "WORD", "thread_id": "thread-ledger"}),
    ("complete_run", {"run_id": "run-waits", "claim": "not it", "output": "WORD"}),
    ("resume_run", {"run_id": "run-ended", "data": {"like": "WORD"}}),
    (
        "update_thread",
        {"window": {"limit": "no-such", "summary_prompt": "WORD"}, "title": "WORD", "thread_id": "thread-ledger"},
    ),
    ("submit_memory_job", {"job_id": "entries.t.1.0123456789ab", "result": {"entries": ["WORD"]}}),
    ("log_attempt", {"task_key": "k", "action": "", "result": "WORD", "thread_id": "thread-ledger"}),
]


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Background work is done by a worker of the test's own."""
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Whatever is logged by the server, with its tracebacks, at any level. (The client, and the Postgres or SQLite
    driver, are not the server.)"""
    lines: list[str] = []
    form = logging.Formatter("%(name)s %(levelname)s %(message)s")
    catching = logging.Handler()
    catching.emit = lambda record: lines.append(form.format(record))  # type: ignore[method-assign]
    root = logging.getLogger()
    level = root.level
    root.addHandler(catching)
    root.setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(catching)
    root.setLevel(level)


class Overheard(ScriptedChat):
    """Has nothing to note; ``both`` is set once it was given words of each."""

    def __init__(self) -> None:
        super().__init__(observe=NOTED, entries={"entries": []})
        self.both = anyio.Event()
        self._of: set[str] = set()

    async def answer(self, kind: str, material: Material) -> ChatAnswer:
        self._of |= set(WORD.findall(f"{material.prompt} {material.content}"))
        if self._of == {"one", "two"}:
            self.both.set()
        return await super().answer(kind, material)


@asynccontextmanager
async def two_tenants(url: str) -> AsyncIterator[tuple[World, Filling, Filling]]:
    """Both full, each with EACH words."""
    async with world(url) as server, server.client("modern") as client:
        engine = (await server.process.runtime()).engine
        both = [
            Filling(Person(client, Scope(f"tenant-{name}", "bot", "ana")), Words(name), engine)
            for name in ("one", "two")
        ]
        for filling in both:
            await filling.everything()
            while (missing := EACH - len(filling.words.given)) > 0:
                more = [
                    {"role": "user", "content": f"The shed has a {filling.words()} in it."}
                    for _ in range(min(50, missing))
                ]
                await filling.do("add_messages", thread_id="thread-shed", messages=more)
        one, two = both
        yield server, one, two


@pytest.mark.databases
async def test_no_word_of_one_tenant_is_in_what_the_other_gets(database_url: str, logged: list[str]) -> None:
    async with two_tenants(database_url) as (server, one, two):
        for asking, other in ((one, two), (two, one)):
            answers = [answer async for answer in everything_asked(asking.person, other.words.given)]
            assert len(answers) > 2 * ASKED
            found = {word for answer in answers for word in WORD.findall(answer)}
            assert found == {asking.words.given[0][2:5]}, "its own words are there, and no other"
        errors = [await refusal(filling, *call) for filling in (one, two) for call in REFUSED]
        assert not [error for error in errors if WORD.search(error)]
        prompts = await thought_of(server, one, two)
        assert not [prompt for prompt in prompts if len(set(WORD.findall(prompt))) > 1]
    ours = [line for line in logged if not line.startswith(("mcp.client", "asyncio", "client"))]
    assert ours
    assert not [line for line in ours if WORD.search(line)][:3]


async def everything_asked(person: Person, words: list[str]) -> AsyncIterator[str]:
    """What somebody is answered who asks for all they have, and for the other's words."""
    for word in ["shed", "cellar", "harbour", "lost kept", *words[:: len(words) // ASKED]]:
        for form in ("text", "json"):
            request = {"query": word, "format": form, "limit": 50, "max_tokens": 20_000, "explain": form == "json"}
            yield without(word, await person.call("recall_memory", request))
        yield without(word, await person.call("get_context", {"query": word, "thread_id": "thread-shed"}))
        yield without(word, await person.ask("read", {"uri": f"memory://recall?query={word.split()[0]}"}))
    for tool, arguments in (("list_threads", {"limit": 100}), ("list_runs", {"limit": 100}), ("memory_status", {})):
        yield str(await person.call(tool, arguments))
    for thread in ("thread-ledger", "thread-orchard", "thread-observed", "thread-halved", "thread-gone", "thread-shed"):
        here = {"thread_id": thread}
        for tool in ("get_messages", "get_working_memory", "list_steps", "list_events"):
            yield str(await person.call(tool, here))
        for form in ("text", "json", "openai", "responses", "anthropic", "gemini", "ai-sdk"):
            yield str(await person.call("get_context", {**here, "format": form, "max_tokens": 50_000}))
        yield str(await person.call("plan", {**here, "action": "review"}))
        yield str(await person.call("get_briefing", {**here, "task": "look", "task_key": f"task-{thread}"}))
        for prompt in ("load_memory", "resume_work"):
            yield str(await person.ask("prompt", {"name": prompt, "arguments": here}))
    yield str(await person.ask("prompt", {"name": "review_memory", "arguments": {}}))
    listed = await person.ask("list", {})
    yield str(listed)
    for each in listed["answer"]["resources"]:
        yield str(await person.ask("read", {"uri": each["uri"]}))


def without(word: str, answer: Any) -> str:
    """An answer but for the repeated query."""
    return str(answer).replace(word, "") if "canary" in word else str(answer)


async def refusal(filling: Filling, tool: str, arguments: Json) -> str:
    def worded(value: Any) -> Any:
        if isinstance(value, dict):
            return {worded(name): worded(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [worded(inner) for inner in value]
        return value.replace("WORD", filling.words.given[7]) if isinstance(value, str) else value

    answer = await filling.person.call(tool, worded(arguments))
    assert answer["error"], (tool, answer)
    return str(answer)


async def thought_of(server: World, *fillings: Filling) -> list[str]:
    """What a model is given for the jobs of all."""
    engine, chat = (await server.process.runtime()).engine, Overheard()
    for filling in fillings:
        await filling.ask_for("observe", "thread-shed")
        await filling.ask_for("entries", "thread-shed")
    worker = JobWorker(engine, make_kinds(), chat, holder="test", pace=PACE, chance=lambda: 0.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.run)
        with anyio.fail_after(60):
            await chat.both.wait()
        tasks.cancel_scope.cancel()
    return [f"{material.prompt} {material.content}" for _, material in chat.request]


async def test_the_command_line_shows_only_whom_it_is_started_for(
    sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with two_tenants(sqlite_url) as (server, one, two):
        mine = Filling(
            Person(one.person.client, Scope("local", "default", "default")),
            Words("own"),
            (await server.process.runtime()).engine,
        )
        await mine.do(
            "add_messages", thread_id="main", messages=[{"role": "user", "content": f"My {mine.words()} in the shed"}]
        )
    settings = load_settings({"database": sqlite_url, **SETTINGS}, environ={})
    request = functools.partial(
        recall_command, settings, "local", limit=50, min_score=0, thread_id="", explain=True, as_json=False
    )
    commands = [
        functools.partial(request, query)
        for query in ("shed", "cellar", *one.words.given[::200], *two.words.given[::200])
    ]
    commands += [functools.partial(usage_command, settings, "local", by, as_json=True) for by in BY]
    commands += [functools.partial(jobs_command, settings, "local", resume=False, as_json=True)]
    commands += [functools.partial(undo_command, settings, "local", "", force=False, as_json=True)]
    for command in commands:
        assert await anyio.to_thread.run_sync(command) == 0
    shown = capsys.readouterr().out
    assert mine.words.given[0] in shown
    assert not WORD.search(shown)


@pytest.mark.programs
def test_a_refused_call_leaves_nothing_of_what_it_sent_in_the_log_at_any_level() -> None:
    """An error may repeat a value of the wrong type, to whom that sent it."""
    program = """
import anyio
from mcp import Client
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.process.logs import configure_logging
from layerlore.server.settings.settings import load_settings
configure_logging("debug")
async def main():
    settings = load_settings({"database": "sqlite://:memory:", "embedding": {"embedder": "none"}}, environ={})
    async with Client(build_server(settings)) as client:
        sent = {"action": "create", "plan": {"goal": "x", "steps": "zqone1canary"}, "thread_id": "main"}
        print(await client.call_tool("plan", sent))
anyio.run(main)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "zqone1canary" in ended.stdout
    served = [line for line in ended.stderr.splitlines() if '"logger": "mcp.client' not in line]
    assert not [line for line in served if WORD.search(line)]
