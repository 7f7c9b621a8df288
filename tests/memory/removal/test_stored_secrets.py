"""Secrets that were stored before anything was masked, in everything that the tools and background work store: masked
afterwards, in place."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from secret_formats import FORMATS, made_up
from sqlalchemy import insert, text, update

from layerlore.conformance.seeing_all import see_all
from layerlore.memory.language.search_words import split_words
from layerlore.memory.removal.stored_redaction import RedactionResult, redact
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.records import Origin, Tenant
from layerlore.storage.core.tables import (
    jobs,
    metadata,
    observations,
    session_notes,
    shared_lines,
    summaries,
    threads,
)
from layerlore.storage.core.tables.columns import CONTENT
from layerlore.storage.core.transaction import Database, Row, Tx

from ...server.tools.calling import Connect, Json, Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

SettingsFor = Callable[..., Settings]
BY = Origin("command line", "redact", "command:redact")
CATALOGUE = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
}
# Whatever an attempt at the task, or a step of the operation, is called: what fits in such a name.
NAME_CHARS = 200


def batched(told: Sequence[tuple[str, str]], size: int) -> Iterator[Sequence[tuple[str, str]]]:
    return (told[start : start + size] for start in range(0, len(told), size))


def one_of_each_kind() -> list[tuple[str, str]]:
    """Of each kind of secret the text that it stands in, and the secret."""
    found: dict[str, tuple[str, str]] = {}
    for kind, template in FORMATS:
        before, secret, after = made_up(template, 7)
        found.setdefault(kind, (before + secret + after, secret))
    return list(found.values())


KINDS = one_of_each_kind()
TEXTS = ["\n\n".join(told for told, _ in some) for some in batched(KINDS, 8)]
NAMES = [told for told, _ in KINDS if told.isprintable() and len(told) <= NAME_CHARS]


def name_for(number: int) -> str:
    return NAMES[number % len(NAMES)]


async def tell(tools: Tools, number: int, told: str) -> None:
    """Store a text with a secret through every tool that stores texts, in a thread of its own."""
    thread: Json = {"thread_id": f"t{number}"}
    call = {"id": "c", "function": {"name": "f", "arguments": {"a": [told]}}}
    await tools.add(
        thread["thread_id"],
        {
            "role": "user",
            "content": f"quokka{number} {told}",
            "name": name_for(number),
            "metadata": {"a": {told: told}},
        },
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": told},
        {"role": "user", "content": "see", "files": [{"file_name": "a.txt", "metadata": {"k": told}}]},
        {"role": "user", "content": f"gone {told}", "id": "gone"},
    )
    await tools("delete_messages", **thread, which="ids", ids=["gone"])
    window = {"summarise": True, "summary_prompt": told, "predefined": [{"role": "user", "content": told}]}
    await tools("update_thread", **thread, title=name_for(number), metadata={"a": [told]}, window=window)
    await tools("update_working_memory", **thread, content=f"# Memory\n{told}")
    await tools("update_working_memory", scope="resource", content=f"# Profile\n{told}")
    await tools("plan", **thread, action="create", plan={"goal": told, "steps": [{"description": told}]})
    tried = {"action": told, "result": told, "error": told, "diagnosis": told, "fix_applied": told}
    await tools("log_attempt", **thread, task_key=name_for(number), **tried)
    step = {"type": "text", "operation_id": name_for(number), "content": told, "metadata": {"a": told}}
    await tools("record_steps", **thread, steps=[step, {"type": "Error", "payload": {"a": told}}])
    waiting = {"tool_call_id": "c", "tool_name": "f", "args": {"a": told}}
    run: Json = {**thread, "state": {"a": [told]}, "reason": told, "metadata": {"a": told}}
    await tools("suspend_run", run_id=f"r{number}", **run, pending_tool_calls=[waiting])
    await tools("suspend_run", run_id=f"done{number}", **run)
    claim = (await tools("resume_run", run_id=f"done{number}"))["claim"]
    await tools("complete_run", run_id=f"done{number}", claim=claim, status="completed", output={"a": told})
    await tools("resume_run", run_id=f"r{number}", data={"a": told})
    await tools("remember", content=f"numbat{number} {told}")


async def all_rows(tx: Tx) -> dict[str, list[Row]]:
    names = [row[0] for row in await tx.all(text(CATALOGUE[tx.backend.name]))]
    return {name: list(await tx.all(text(f'SELECT * FROM "{name}"'))) for name in sorted(names)}


async def think(tx: Tx) -> None:
    """What background work keeps, of each thread with what its title says: a name for each."""
    for tenant, agent, resource, uid, title in await tx.all(
        text("SELECT tenant_id, agent_id, resource_id, thread_uid, title FROM threads WHERE title IS NOT NULL")
    ):
        of = {"tenant_id": tenant, "agent_id": agent, "resource_id": resource, "thread_uid": uid}
        made = {**of, "text": f"told {title}", "from_seq": 1, "model": "m", "prompt": "p", "created_at": 1}
        noted = {"observation_id": 1, "to_seq": 1, "marker": "info", "said_at": 1, "tokens": 3, "batch": 1, "level": 0}
        job = {"kind": "x", "requested_seq": 1, "done_seq": 1, "due_at": 1, "epoch": 1, "attempts": 1}
        line = json.dumps({"content": title})
        shared = {
            "tenant_id": tenant,
            "agent_id": agent,
            "resource_id": resource,
            "share_id": uid,
            "own": 1,
            "line": line,
        }
        note = {"status": "active", "trust": "user", "refers_to": title}
        for table, values in (
            (observations, {**made, **noted, **note}),
            (session_notes, {**made, "note_id": 1, "to_seq": 1, "category": "state"}),
            (summaries, {**made, "upto_seq": 1, "tokens": 3}),
            (jobs, {**of, **job, "error": title, "created_at": 1, "updated_at": 1}),
            (shared_lines, shared),
        ):
            await tx.run(insert(table).values(values))
        await tx.run(update(threads).where(threads.c.thread_uid == uid).values(current_task=title, next_step=title))


async def redacted(settings: Settings, **given: Any) -> RedactionResult:
    engine = await open_engine(settings)
    try:
        tenant = given.pop("tenant", None)
        return await redact(engine, lambda scope: tenant in (None, Tenant(scope.tenant_id)), origin=BY, **given)
    finally:
        await close_engine(engine)


async def _seeing_all(tx: Tx, function: Callable[[Tx], Any]) -> Any:
    await see_all(tx)
    return await function(tx)


async def on_database(settings: Settings, function: Callable[[Tx], Any], *, write: bool = False) -> Any:
    engine = await open_engine(settings)
    try:
        database: Database = engine.database
        return await (database.write_installation if write else database.read_installation)(_seeing_all, function)
    finally:
        await close_engine(engine)


def places_of(secrets: Sequence[str], rows: dict[str, list[Row]]) -> dict[str, set[str]]:
    """In which tables which secrets stand, as they are or as JSON has them."""
    found: dict[str, set[str]] = {}
    for name, table in rows.items():
        whole = "\x00".join(str(value) for row in table for value in row)
        for secret in secrets:
            if secret in whole or json.dumps(secret, ensure_ascii=False)[1:-1] in whole:
                found.setdefault(name, set()).add(secret)
    return found


def searched_for(secrets: Sequence[str]) -> set[str]:
    """Words that only secrets have."""
    return {
        word for secret in secrets for word in split_words(secret) if len(word) >= 12 and any(map(str.isdigit, word))
    }


async def test_no_secret_of_any_kind_is_left_in_any_column_of_any_table(
    connect: Connect, settings_for: SettingsFor
) -> None:
    secrets = [secret for _, secret in KINDS]
    async with connect(redaction="off", toolsets="all") as tools:
        for number, told in enumerate(TEXTS):
            await tell(tools, number, told)
    await on_database(settings_for(), think, write=True)
    before = await on_database(settings_for(), all_rows)
    assert places_of(secrets, before).keys() >= CONTENT.keys() - {"resource_events"}
    assert len(places_of(secrets, before)["messages"]) == len(KINDS) >= 60

    expected = await redacted(settings_for(), dry_run=True)
    assert await on_database(settings_for(), all_rows) == before
    done = await redacted(settings_for())
    assert (done.rows, done.secrets) == (expected.rows, expected.secrets)
    assert done.rows.keys() == CONTENT.keys() - {"resource_events"}

    after = await on_database(settings_for(), all_rows)
    assert places_of(secrets, after) == {}
    indexed = repr([after.get(name) for name in ("search_text", "search_text_content", "search_rows")])
    assert not [word for word in searched_for(secrets) if word in indexed]
    for name, columns in CONTENT.items():
        table = metadata.tables[name]
        place = {column.name: index for index, column in enumerate(table.c)}
        for column, content in columns.items():
            for row in after[name] if content.form not in ("text", "document") else ():
                value = dict(zip(place, row, strict=True))[column]
                assert value is None or json.loads(value) is not None
    again = await redacted(settings_for())
    assert (again.rows, again.secrets) == ({}, {})
    assert await on_database(settings_for(), all_rows) == after

    async with connect(redaction="all", toolsets="all") as tools:
        for number in range(len(TEXTS)):
            (found,) = await tools.found(f"quokka{number}", neighbours=False)
            assert found.startswith(f"quokka{number} ")
            assert "[masked:" in found
            assert not [secret for secret in secrets if secret in found]


async def test_what_has_no_secret_stays_to_the_byte(connect: Connect, settings_for: SettingsFor) -> None:
    async with connect(redaction="off", toolsets="all") as tools:
        for number in range(3):
            await tell_plainly(tools, number)
        before = await on_database(settings_for(), all_rows)
        await tools.add("secret", {"role": "user", "content": KINDS[0][0]})
    done = await redacted(settings_for())
    assert done.rows == {"messages": 1}
    after = await on_database(settings_for(), all_rows)
    for name in CONTENT:
        assert [row for row in before[name] if row not in after[name]] == [], name


async def tell_plainly(tools: Tools, number: int) -> None:
    """The same as ``tell``, where nothing is a secret: passwords that are spoken of, ids, hashes, links, media."""
    plain = f"the password policy {number}, commit 3f2504e0, https://example.com/a?b=c"
    await tools.add(
        f"p{number}",
        {
            "role": "user",
            "content": [plain, {"type": "image", "data": "QUtJQUFBQUFBQUFBQUFBQQ==", "mime_type": "image/png"}],
        },
        {"role": "user", "content": plain, "metadata": {"b": 1.50, "a": [plain, None, True]}},
    )
    await tools("update_thread", thread_id=f"p{number}", title=plain, metadata={"z": plain, "a": 1e5})
    await tools("update_working_memory", thread_id=f"p{number}", content='{ "not": "compact" }')
    await tools("suspend_run", thread_id=f"p{number}", run_id=f"p{number}", state={"z": [1.50, plain, 10**30]})
    await tools("remember", content=f"{plain} is what to keep in mind")


async def test_a_message_sent_again_is_the_one_that_was_masked(connect: Connect, settings_for: SettingsFor) -> None:
    messages = [{"role": "user", "content": f"see {told}", "id": f"m{n}"} for n, (told, _) in enumerate(KINDS[:100])]
    async with connect(redaction="off") as tools:
        await tools.add("main", *messages)
    await redacted(settings_for())
    async with connect(redaction="all") as tools:
        again = await tools.add("main", *messages)
        assert {message["status"] for message in again["messages"]} == {"unchanged"}


async def test_a_thread_counts_the_tokens_of_its_masked_messages(connect: Connect, settings_for: SettingsFor) -> None:
    async with connect(redaction="off") as tools:
        await tools.say("main", *(told for told, _ in KINDS[:100]))
        for some in (KINDS[:50], KINDS[50:100]):
            await tools.say("half gone", *(told for told, _ in some))
        assert (await tools("delete_messages", thread_id="half gone", which="last_turn"))["deleted"] == 50
    await redacted(settings_for())

    async def counted(tx: Tx) -> list[Row]:
        return list(
            await tx.all(
                text(
                    "SELECT token_count, raw_tokens, (SELECT sum(m.tokens) FROM messages m WHERE deletion_uid IS NULL "
                    "AND m.thread_uid = t.thread_uid) FROM threads t"
                )
            )
        )

    for tokens, raw, summed in await on_database(settings_for(), counted):
        assert tokens == raw == summed


async def test_only_the_tenant_that_is_asked_for_is_touched(connect: Connect, settings_for: SettingsFor) -> None:
    told, secret = KINDS[0]
    async with connect(redaction="off") as tools:
        await tools.say("main", told)
    before = await on_database(settings_for(), all_rows)
    done = await redacted(settings_for(), tenant=Tenant("loca"))
    assert done.rows == {}
    assert await on_database(settings_for(), all_rows) == before
    assert (await redacted(settings_for(), tenant=Tenant("local"))).rows == {"messages": 1}
    assert places_of([secret], await on_database(settings_for(), all_rows)) == {}
