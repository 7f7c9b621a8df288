"""erase_memory: what would go is told first, with a token; then it is gone, for everybody and from every byte."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from layerlore.conformance.seeing_all import see_all
from layerlore.memory.context.caches import (
    ExtractCache,
    ObservationCache,
    ThreadExtracts,
    ThreadObservations,
    WindowCache,
    _ThreadPart,
)
from layerlore.memory.removal import erasure
from layerlore.memory.removal.deletion import erase_expired
from layerlore.memory.removal.erasure import rewrite_if_owed
from layerlore.server.capture.hook_sessions import Session, Sessions
from layerlore.server.relay.launch import hook_folder
from layerlore.server.runtime import runtime
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import DAY_MS, Scope, Thread
from layerlore.storage.core.transaction import Tx

from ...conftest import SettingsFor
from ...server.tools.calling import Connect, Json, Tools
from ...server.tools.queueing import Queue

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

KEY = "layerlore/idempotency-key"
MARKERS = 1000
OFFERED = {"toolsets": "all"}
ANA, BEN = (Scope("local", "default", name) for name in ("ana", "ben"))


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)


class Markers:
    """Words that nothing else holds; each is given once."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def __call__(self) -> str:
        self.given.append(f"zyx{len(self.given)}marker")
        return self.given[-1]


async def take_job(tools: Tools, queue: Queue, marker: str, evidence: str) -> None:
    await queue.ask("entries", "main")
    job = await tools("next_memory_job")
    entry = {"content": f"{marker} is liked", "source": "user_assertion", "evidence": evidence, "corrects": None}
    stored = await tools("submit_memory_job", job_id=job["job_id"], result={"entries": [entry]})
    assert stored["kept"] == ["entries[0]"]


async def write_everywhere(tools: Tools, queue: Queue, of: Markers) -> None:
    """MARKERS words, in every place of every tool that writes."""
    thread: Json = {"thread_id": "main"}
    liked = of()
    evidence = f"I like {liked}, {of()} too"
    await tools.add("main", {"role": "user", "content": evidence})
    await take_job(tools, queue, liked, evidence)
    call = {"type": "tool_call", "id": of(), "name": of(), "arguments": {of(): of()}}
    answer = {"type": "tool_result", "tool_call_id": call["id"], "name": call["name"], "result": of()}
    await tools.add(
        "main",
        {"role": "user", "content": of(), "name": of(), "metadata": {of(): of()}, "id": of()},
        {"role": "assistant", "content": [{"type": "text", "text": of()}, call]},
        {"role": "tool", "content": [answer]},
        meta={KEY: of()},
    )
    replaced = of()
    await tools.add("main", {"role": "user", "content": of(), "id": replaced})
    await tools.add("main", {"role": "user", "content": of(), "id": replaced}, replace=True)
    window = {"summary_prompt": of(), "predefined": [{"role": "user", "content": of()}]}
    await tools("update_thread", **thread, title=of(), metadata={of(): of()}, window=window, meta={KEY: of()})
    for _ in range(2):
        await tools("update_working_memory", **thread, content=of())
    await tools("clear_working_memory", **thread)
    await tools("update_working_memory", **thread, content=of())
    await tools(
        "plan", **thread, action="create", plan={"goal": of(), "steps": [{"phase": "build", "description": of()}]}
    )
    await tools("plan", **thread, action="update", plan={"goal": of()})
    told = {"action": of(), "result": of(), "error": of(), "diagnosis": of(), "fix_applied": of()}
    await tools("log_attempt", **thread, task_key=of(), **told)
    step = {"type": "text", "operation_id": of(), "content": of()}
    await tools("record_steps", **thread, steps=[step, {"type": "TurnEnd", "payload": {of(): of()}}])
    state = {"workflow_id": of(), "reason": of(), "metadata": {of(): of()}, "state": {of(): of()}}
    await tools("suspend_run", **thread, run_id=of(), **state)
    run_id = of()
    await tools("suspend_run", **thread, run_id=run_id, **state)
    claim = (await tools("resume_run", run_id=run_id, data={of(): of()}))["claim"]
    await tools("complete_run", run_id=run_id, claim=claim, output={of(): of()})
    await tools("delete_messages", **thread, which="ids", ids=[replaced])
    while len(of.given) < MARKERS - 10:
        few = range(min(50, MARKERS - 10 - len(of.given)))
        await tools.add("main", *({"role": "user", "content": f"about {of()} and so on"} for _ in few))


async def write_of_the_resource(tools: Tools, of: Markers) -> None:
    """The rest of the words, in what rests on no conversation."""
    for _ in range(2):
        await tools("update_working_memory", scope="resource", content=of())
    await tools("remember", content=f"{of()} is a good word", meta={KEY: of()})
    kept = await tools("remember", content=f"{of()} is another one")
    await tools("forget", ids=[kept["id"]])
    await tools("forget", query=of.given[-1])
    thread_id = of()
    await tools.say(thread_id, of())
    while len(of.given) < MARKERS:
        await tools.say(thread_id, of())


async def left(settings_for: SettingsFor, tmp_path: Path, of: Markers) -> list[str]:
    """The words that are still in the files, or in any row of any table."""
    stored = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("memory.db*")))
    if not stored:
        engine = await open_engine(settings_for())
        stored = (await engine.database.read_installation(rows)).encode()
        await close_engine(engine)
    return [marker for marker in of.given if marker.encode() in stored]


async def rows(tx: Tx) -> str:
    await see_all(tx)
    names = await tx.all(text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"))
    return "\n".join([repr(tuple(row)) for (name,) in names for row in await tx.all(text(f'SELECT * FROM "{name}"'))])


async def erase(tools: Tools, **arguments: Any) -> Json:
    """A dry run, and what it told of."""
    token = (await tools("erase_memory", **arguments))["confirm"]
    receipt: Json = await tools("erase_memory", dry_run=False, confirm=token, **arguments)
    return receipt


async def test_no_marker_of_a_thousand_is_left_in_any_byte_or_row(
    all_tools: Tools, queue: Queue, settings_for: SettingsFor, tmp_path: Path
) -> None:
    of = Markers()
    await write_everywhere(all_tools, queue, of)
    await write_of_the_resource(all_tools, of)
    assert len(of.given) == MARKERS
    assert len(await left(settings_for, tmp_path, of)) > 0.97 * MARKERS  # what was replaced or cleared may be gone
    receipt = await erase(all_tools)
    assert receipt["bytes"] == ("vacuum" if "postgres" in settings_for().database.get_secret_value() else "erased")
    assert await left(settings_for, tmp_path, of) == []


async def clear_all(tools: Tools) -> None:
    """Delete everything, as an agent may."""
    for thread in (await tools("list_threads", limit=100))["threads"]:
        await tools("delete_thread", thread_id=thread["thread_id"])
    await tools("clear_working_memory", scope="resource")
    ids = [hit["id"] for hit in await tools.hits("is a good word another one", limit=50) if hit.get("kind") == "entry"]
    assert ids
    await tools("forget", ids=ids)


@pytest.mark.parametrize("deleted_days", [0, 30])
async def test_no_marker_is_left_of_what_was_deleted_when_its_days_have_passed(
    connect: Connect, settings_for: SettingsFor, tmp_path: Path, deleted_days: int
) -> None:
    of = Markers()
    retention = {"retention": {"deleted_days": deleted_days}}
    async with connect(**OFFERED, **retention) as tools:
        engine = await open_engine(settings_for())
        await write_everywhere(tools, Queue(engine.database, engine.now), of)
        await close_engine(engine)
        await write_of_the_resource(tools, of)
        await clear_all(tools)
    # What is deleted is kept for its days, and answers for one.
    days = max(deleted_days, 1)
    for later, gone in ((days - 0.01, False), (days + 0.01, True)):
        await pass_days(settings_for(**retention), later)
        assert bool(await left(settings_for, tmp_path, of)) is not gone


async def pass_days(settings: Settings, days: float) -> None:
    """What maintenance does so much later. Whoever closes the database last empties SQLite's log."""
    engine = await open_engine(settings)
    try:
        then = engine.now() + int(days * DAY_MS)
        later = replace(engine, now=lambda: then)
        await erase_expired(later)
        await rewrite_if_owed(later)
    finally:
        await close_engine(engine)


async def test_a_dry_run_tells_the_same_and_changes_nothing(all_tools: Tools) -> None:
    tools = all_tools
    await tools.say("main", "tea", "cake")
    await tools.say("other", "tea")
    dry = await tools("erase_memory")
    assert dry["dry_run"] is True
    assert (dry["counts"]["messages"], dry["counts"]["threads"]) == (3, 2)
    assert dry["rows"] == sum(dry["counts"].values())
    assert "bytes" not in dry
    assert await tools.texts("main") == ["tea", "cake"]
    again = await tools("erase_memory")
    assert (again["counts"], again["rows"]) == (dry["counts"], dry["rows"])
    receipt = await tools("erase_memory", dry_run=False, confirm=again["confirm"])
    assert (receipt["counts"], receipt["dry_run"]) == (dry["counts"], False)
    assert receipt["receipt"] not in (dry["receipt"], again["receipt"])
    assert receipt["resource_mark"] == dry["resource_mark"]
    assert len(receipt["resource_mark"]) == 32
    assert "default" not in json.dumps({**receipt, "agent": ""})
    assert (await tools("list_threads"))["threads"] == []
    assert (await tools("erase_memory"))["rows"] == 0


async def test_what_hooks_know_of_the_resource_goes_from_the_data_folder_too(
    connect: Connect, settings_for: SettingsFor, tmp_path: Path
) -> None:
    hooks = hook_folder(str(tmp_path / "data"), settings_for().database.get_secret_value())
    async with connect(toolsets="all", data_dir=str(tmp_path / "data"), resource="ana") as tools:
        for scope in (ANA, BEN):
            known = Session("chat", scope.agent_id, scope.resource_id, transcripts={"mark": {"offset": 7}}, messages=3)
            await Sessions(hooks).write(known, scope)
        await tools.say("main", "tea")
        await erase(tools)
    first, second = sorted(Sessions(hooks).list_all(), key=lambda each: each.resource)
    assert (first.resource, first.session, first.messages, first.transcripts) == ("", "", 0, {"mark": {"offset": 7}})
    assert (second.resource, second.session, second.messages) == ("ben", "chat", 3)


async def test_one_conversation_goes_and_the_others_stay(all_tools: Tools) -> None:
    tools = all_tools
    await tools.say("main", "a quokka")
    await tools("delete_thread", thread_id="main")
    await tools.say("main", "another quokka")
    await tools.say("other", "a quokka in another thread")
    receipt = await erase(tools, thread_id="main")
    assert (receipt["counts"]["threads"], receipt["counts"]["messages"]) == (2, 2)
    assert len(receipt["thread_mark"]) == 32
    assert await tools.found("quokka") == ["a quokka in another thread"]
    (event,) = (await tools("list_events", scope="resource", types=["memory_erased"]))["events"]
    assert (event["payload"], event["tool"]) == ({"threads": 2, "messages": 2}, "erase_memory")
    types = [each["type"] for each in (await tools("list_events", scope="resource"))["events"]]
    assert types == ["thread_created", "memory_erased"]


async def test_only_the_token_of_a_fresh_dry_run_of_the_same_erases(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(**OFFERED) as tools, connect(**OFFERED, resource="ben") as ben:
        await tools.say("main", "tea")
        await ben.say("main", "tea")
        token = (await tools("erase_memory"))["confirm"]
        of_thread = (await tools("erase_memory", thread_id="main"))["confirm"]
        of_ben = (await ben("erase_memory"))["confirm"]
        assert "confirm: goes with dry_run=false" in await tools.refused("erase_memory", confirm=token)
        for wrong in (
            "",
            " ",
            "x",
            token[:-1],
            f"{token}a",
            f"0{token}",
            of_thread,
            of_ben,
            "ffffffff-aaaa",
            "-",
            "é-b",
        ):
            error = await tools.refused("erase_memory", dry_run=False, confirm=wrong)
            assert error.startswith("confirm: ")
        error = await tools.refused("erase_memory", thread_id="main", dry_run=False, confirm=token)
        assert "needs the token that a dry run with the same thread_id gave" in error
        await tools.say("main", "cake")
        assert "no message may have come or gone since" in await tools.refused(
            "erase_memory", dry_run=False, confirm=token
        )
        monkeypatch.setattr(erasure, "TOKEN_MINUTES", -1)
        late = (await tools("erase_memory"))["confirm"]
        assert "the token was good until 20" in await tools.refused("erase_memory", dry_run=False, confirm=late)
        assert await tools.texts("main") == ["tea", "cake"]
        assert await ben.texts("main") == ["tea"]


async def test_the_same_request_sent_again_gets_the_first_receipt_again(all_tools: Tools) -> None:
    tools = all_tools
    await tools.say("main", "tea")
    token = (await tools("erase_memory", meta={KEY: "dry"}))["confirm"]
    receipt = await tools("erase_memory", dry_run=False, confirm=token, meta={KEY: "k"})
    await tools.say("main", "cake")
    assert await tools("erase_memory", dry_run=False, confirm=token, meta={KEY: "k"}) == receipt
    assert await tools.texts("main") == ["cake"]
    error = await tools.refused("erase_memory", thread_id="main", dry_run=False, confirm=token, meta={KEY: "k"})
    assert "was used for another request" in error


async def test_what_is_erased_is_hidden_from_another_server_at_once(connect: Connect) -> None:
    async with connect(**OFFERED) as one, connect(**OFFERED) as two:
        await one.say("main", "a quokka")
        await one("update_working_memory", scope="resource", content="likes quokkas")
        await one("remember", content="The quokka is happy.")
        assert len(await two.found("quokka")) == 3
        await erase(one)
        assert await two.found("quokka") == []
        assert await two.messages("main") == []
        assert "quokka" not in await two("get_working_memory", scope="resource")
        assert (await two("list_events", scope="resource"))["last_seq"] == 0
        await two.say("main", "anew")
        assert await one.texts("main") == ["anew"]


async def test_others_of_the_same_names_keep_theirs(connect: Connect) -> None:
    flags: list[Json] = [{"resource": "ben"}, {"agent": "coach"}]
    async with connect(**OFFERED) as tools:
        await tools.say("main", "a quokka")
        for each in flags:
            async with connect(**OFFERED, **each) as other:
                await other.say("main", "a quokka")
                await other("remember", content="The quokka is happy.")
        await erase(tools)
        for each in flags:
            async with connect(**OFFERED, **each) as other:
                assert len(await other.found("quokka")) == 2


async def test_it_is_offered_only_where_it_is_asked_for(connect: Connect) -> None:
    async with connect() as tools:
        assert "erase_memory" not in [tool.name for tool in (await tools.client.list_tools()).tools]
        await tools.say("main", "tea")
        assert "no tool 'erase_memory'" in await tools.unknown("erase_memory")
    async with connect(toolsets="core,admin") as tools:
        assert "erase_memory" in [tool.name for tool in (await tools.client.list_tools()).tools]


async def test_what_this_process_remembers_of_texts_is_forgotten(settings_for: SettingsFor) -> None:
    engine = await open_engine(settings_for(embedding={"embedder": "use"}))
    try:
        assert engine.embedding is not None
        for scope in (ANA, BEN):
            engine.embedding.refused[scope] = {1}
            engine.caches.of(ObservationCache)._threads.keep((scope, "u"), None, ThreadObservations(()))
            part = _ThreadPart("u", True, None, 0)
            engine.caches.of(ExtractCache)._threads.keep((scope, part), None, ThreadExtracts(()))
            engine.caches.of(WindowCache).get(scope, Thread("u", "main", None))
        await engine.embedding.query("a quokka")
        engine.forget_texts(ANA)
        assert engine.embedding.refused == {BEN: {1}}
        assert [key[0] for key in engine.caches.of(ObservationCache)._threads.list_keys()] == [BEN]
        assert [key[0] for key in engine.caches.of(ExtractCache)._threads.list_keys()] == [BEN]
        assert [key[0] for key in engine.caches.of(WindowCache)._threads.list_keys()] == [BEN]
        assert engine.embedding._cache.list_keys() == []
    finally:
        await close_engine(engine)


async def test_what_is_said_between_the_look_and_the_erasure_keeps_it_from_happening(
    all_tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    await all_tools.say("main", "one")
    preview = await all_tools("erase_memory", dry_run=True)
    erase, late = erasure.erase, []

    async def slow(*given: Any, **named: Any) -> Any:
        if not named.get("dry_run") and not late:
            late.append(await all_tools.say("main", "and nobody was shown this"))
        return await erase(*given, **named)

    monkeypatch.setattr(erasure, "erase", slow)
    told = await all_tools.refused("erase_memory", dry_run=False, confirm=preview["confirm"])
    assert late
    assert "this call erased nothing" in told
    assert (await all_tools("memory_status"))["counts"]["messages"] == 2


async def test_who_was_interrupted_after_the_hiding_gets_the_receipt_by_asking_again(
    all_tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    await all_tools.say("main", "one")
    token = (await all_tools("erase_memory", dry_run=True))["confirm"]

    async def interrupted(_: Any) -> str:
        raise StorageUnavailable("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(erasure, "rewrite_if_owed", interrupted)
        assert "the disk is full" in await all_tools.refused(
            "erase_memory", dry_run=False, confirm=token, meta={KEY: "k"}
        )
    again = await all_tools("erase_memory", dry_run=False, confirm=token, meta={KEY: "k"})
    assert (again["counts"]["messages"], again["dry_run"]) == (1, False)
    assert (await all_tools("memory_status"))["counts"]["messages"] == 0


async def test_a_thread_named_like_a_field_takes_no_answer_of_another_along(all_tools: Tools) -> None:
    hello = {"thread_id": "other", "messages": [{"role": "user", "content": "hello"}], "ids": True}
    await all_tools("add_messages", **hello, meta={KEY: "k"})
    for name in ("messages", "id", "added", "totals"):
        await all_tools.say(name, "one")
        token = (await all_tools("erase_memory", thread_id=name, dry_run=True))["confirm"]
        receipt = await all_tools("erase_memory", thread_id=name, dry_run=False, confirm=token)
        assert "idempotency" not in receipt["counts"]
    again = await all_tools("add_messages", **hello, meta={KEY: "k"})
    assert again["totals"]["messages"] == 1
