"""The journal: every call of a tool that writes is in it, once, with who made it and how it ended, and nothing of it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from layerlore.extraction.jobs.worker import attempt
from layerlore.extraction.kinds.registry import make_kinds
from layerlore.memory.engine.engine import Sent
from layerlore.memory.engine.journal_lines import resource_mark
from layerlore.memory.removal import deletion, undo
from layerlore.server.access.principal import Principal
from layerlore.server.runtime import runtime
from layerlore.server.runtime.runtime import close_engine, open_engine, open_runtime
from layerlore.server.settings.settings import Settings
from layerlore.server.subscriptions.notifications import NotificationHub
from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import JournalFilter, JournalLine
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.installation import hmac_key
from layerlore.storage.core.records import Origin, Scope
from layerlore.storage.core.transaction import Database

from ...conftest import SettingsFor
from ...extraction.jobs.test_memory_jobs import GOOD, TALK
from .calling import Connect, Json, Tools
from .queueing import Queue
from .test_events import BY, CLAIM, KEPT, OF_JOBS, WORD, WRITES
from .test_idempotency import KEY
from .test_idempotency import WRITES as REPEATED

pytestmark = pytest.mark.anyio

RESOURCE = "ana of the numbats"
SCOPE = Scope("local", "default", "default")
HELLO = {"role": "user", "content": WORD, "id": "m1"}


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server does by itself is in the journal, too, whenever it comes to it."""
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)


class Log:
    """The journal, read on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen = 0

    async def all(self) -> list[JournalLine]:
        return [
            row.line
            for row in await self._database.read_installation(journal_rows.read_lines, JournalFilter(), limit=10_000)
        ]

    async def news(self) -> list[JournalLine]:
        """The lines since it was last asked."""
        lines = await self.all()
        new, self._seen = lines[self._seen :], len(lines)
        return new


@pytest.fixture
def log(database: Database) -> Log:
    return Log(database)


@pytest.fixture
async def tools(connect: Connect) -> AsyncIterator[Tools]:
    async with connect(toolsets="all", resource=RESOURCE) as opened:
        yield opened


@pytest.mark.databases
async def test_every_tool_that_writes_leaves_one_line_of_each_call_and_no_word_of_it(
    tools: Tools, log: Log, database: Database
) -> None:
    mark = resource_mark(await database.read_installation(hmac_key), RESOURCE)
    claim = kept = ""
    for tool, arguments in WRITES:
        told = {CLAIM: claim, str(KEPT): [kept]}
        answer = await tools(tool, **{key: told.get(str(value), value) for key, value in arguments.items()})
        kept = answer.get("id", "") if isinstance(answer, dict) else ""
        claim = answer.get("claim", "") if isinstance(answer, dict) else ""
        (line,) = await log.news()
        assert (line.tool, line.outcome, line.reason) == (tool, "done", None)
        assert (line.principal, line.client, line.resource_mark) == ("local", BY, mark)
    rows = repr(await database.read_installation(journal_rows.read_lines, JournalFilter(), limit=10_000))
    assert [word for word in (WORD, RESOURCE, "numbat", "main", "m1", "r1", "build", "hello") if word in rows] == []


async def test_the_counts_are_those_of_the_answer(tools: Tools, log: Log) -> None:
    await tools.say("main", "one", "two", "three")
    await tools("delete_messages", which="last_turn", thread_id="main")
    await tools("record_steps", thread_id="main", steps=[{"type": "text", "operation_id": "o", "content": "c"}] * 3)
    await tools("remember", content="likes tea")
    assert [dict(line.counts) for line in await log.all()] == [{"messages": 3}, {"deleted": 3}, {"steps": 3}, {}]


async def test_the_jobs_that_a_host_does_are_in_it(tools: Tools, log: Log, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask(resource=RESOURCE)
    await log.news()
    job = await tools("next_memory_job")
    await tools("submit_memory_job", job_id=job["job_id"], result={"entries": [GOOD]})
    taken, submitted = await log.news()
    assert {taken.tool, submitted.tool} == OF_JOBS
    assert (submitted.tool, submitted.principal, submitted.outcome) == ("submit_memory_job", "local", "done")
    assert not [word for word in (*GOOD["content"].split()[:3], job["job_id"]) if word in repr([taken, submitted])]


@pytest.mark.parametrize(("tool", "body", "other"), REPEATED, ids=[tool for tool, _, _ in REPEATED])
async def test_a_write_sent_again_is_repeated_and_one_with_its_key_for_something_else_failed(
    tools: Tools, log: Log, tool: str, body: Json, other: Json
) -> None:
    await tools.say("main", "one", "two", "three")
    await tools.say("other", "four")
    await log.news()
    await tools(tool, meta={KEY: "k1"}, **body)
    await tools(tool, meta={KEY: "k1"}, **body)
    await tools.refused(tool, meta={KEY: "k1"}, **other)
    done, again, failed = await log.news()
    assert [each.tool for each in (done, again, failed)] == [tool] * 3
    assert (done.outcome, again.outcome, dict(again.counts)) == ("done", "repeated", {})
    assert (failed.outcome, failed.reason, dict(failed.counts)) == ("failed", "Conflict", {})


async def test_a_write_that_fails_says_with_what_and_leaves_nothing_else(tools: Tools, log: Log) -> None:
    await tools.add("main", HELLO)
    await log.news()
    await tools.refused("add_messages", messages=[{**HELLO, "content": "other"}], thread_id="main")
    await tools.refused("delete_messages", which="ids", ids=["m9"], thread_id="main")
    await tools.refused("delete_thread", thread_id="nowhere")
    await tools.refused("forget", ids=["nothing"])
    await tools.refused("complete_run", run_id="r9", claim="c")
    failed = await log.news()
    assert [(line.tool, line.outcome, line.reason) for line in failed] == [
        ("add_messages", "failed", "Conflict"),
        ("delete_messages", "failed", "NotFound"),
        ("delete_thread", "failed", "NotFound"),
        ("forget", "failed", "NotFound"),
        ("complete_run", "failed", "NotFound"),
    ]
    assert not [word for word in (WORD, "m9", "nowhere", "r9") if word in repr(failed)]
    assert await tools.texts("main") == [WORD]


async def test_reads_and_what_was_refused_before_it_came_to_writing_leave_no_line(tools: Tools, log: Log) -> None:
    await tools.say("main", "hello")
    await log.news()
    await tools("get_messages", thread_id="main")
    await tools("recall_memory", query="hello")
    await tools("get_context", thread_id="main")
    await tools("memory_status")
    await tools("plan", action="review", thread_id="main")
    await tools.refused("add_messages", messages=[{"role": "nobody", "content": "x"}], thread_id="main")
    await tools.refused("add_messages", messages=[HELLO], thread_name="main")
    assert await log.news() == []


async def test_background_work_names_its_kind(tools: Tools, settings_for: SettingsFor, log: Log, queue: Queue) -> None:
    await tools.add("main", *TALK)
    kinds = {kind.name: kind for kind in make_kinds()}
    await log.news()
    engine = await open_engine(settings_for())
    try:
        await queue.ask("title", resource=RESOURCE)
        await attempt(engine, kinds["title"], await queue.claim("title"), None)
    finally:
        await close_engine(engine)
    (line,) = await log.news()
    assert (line.principal, line.tool, line.outcome) == ("job:title", "title", "done")


async def test_undoing_a_delete_and_what_the_server_erases_are_in_it(
    connect: Connect, settings_for: SettingsFor, log: Log
) -> None:
    async with connect() as tools:
        await tools.say("main", "one", "two")
        first = await tools("delete_messages", which="all", thread_id="main")
    engine = await open_engine(settings_for())
    try:
        await log.news()
        sent = Sent(Origin("command line", "undo", "command:undo"))
        await undo.undo(engine, SCOPE, first["undo"], sent=sent)
        assert (await undo.undo(engine, SCOPE, first["undo"], sent=sent))["already"]
        done, again = await log.news()
        assert (done.principal, done.tool, dict(done.counts)) == ("command:undo", "undo", {"messages": 2})
        assert (again.tool, dict(again.counts)) == ("undo", {})
        async with connect() as tools:
            await tools("delete_messages", which="all", thread_id="main")
        await log.news()
        later = replace(engine, now=lambda: engine.now() + 31 * 86_400_000)
        assert await deletion.erase_expired(later) == 1
        (erased,) = await log.news()
        assert (erased.principal, erased.tool, dict(erased.counts)) == ("server", "erase_expired", {"deletes": 1})
    finally:
        await close_engine(engine)


@pytest.fixture
async def opened(settings_for: SettingsFor) -> AsyncIterator[runtime.Runtime]:
    settings: Settings = settings_for()
    started = await open_runtime(settings, NotificationHub())
    yield started
    await started.close()


async def test_a_denied_call_says_who_was_refused_what_and_names_no_agent_that_may_be_made_up(
    opened: runtime.Runtime, log: Log
) -> None:
    everything: dict[str, Any] = {"rights": frozenset({"read"}), "resource": None}
    one = Principal("key:one", "acme", frozenset({"coder"}), **everything)
    any_ = Principal("key:any", "acme", None, **everything)
    await opened.record_refusal(one, tool="forget", client="claude 1.0", error=NotFound(WORD), resource=RESOURCE)
    await opened.record_refusal(any_, tool="forget", client="claude 1.0", error=NotFound(WORD))
    rows = await opened.engine.database.read_installation(
        journal_rows.read_lines, JournalFilter(outcome="denied"), limit=9
    )
    assert [(row.tenant_id, row.agent_id, row.line.principal) for row in rows] == [
        ("acme", "coder", "key:one"),
        ("acme", "", "key:any"),
    ]
    assert {(row.line.tool, row.line.reason, row.line.counts["calls"]) for row in rows} == {("forget", "NotFound", 1)}
    assert rows[0].line.resource_mark == resource_mark(opened.engine.hmac_key, RESOURCE)
    assert WORD not in repr(rows)


async def test_denied_calls_that_were_only_counted_are_told_before_the_end(settings_for: SettingsFor, log: Log) -> None:
    started = await open_runtime(settings_for(), NotificationHub())
    one = Principal("key:one", "acme", frozenset({"coder"}), "ana", frozenset())
    for _ in range(5):
        await started.record_refusal(one, tool="remember", client="c", error=NotFound())
    await started.close()
    assert [line.counts["calls"] for line in await log.all()] == [1, 4]
