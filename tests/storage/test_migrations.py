"""Migrations: many processes at once, a kill at any statement, a failure half way, a database from a newer version."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import asyncpg
import pytest

from layerlore.storage.audit import idempotency
from layerlore.storage.audit.idempotency import Request
from layerlore.storage.core.errors import DatabaseTooNew
from layerlore.storage.core.transaction import Database
from layerlore.storage.derived import entries, entry_marks
from layerlore.storage.drivers.database import open_database
from layerlore.storage.drivers.migrations import runner
from layerlore.storage.drivers.migrations.runner import Migration
from layerlore.storage.drivers.postgres import database as postgres_database
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.removal import forget_candidates
from layerlore.storage.threads import threads
from layerlore.storage.work import open_work

from .building import ANA, draft, execute, having, only, rows, say, seqs
from .conftest import Forking


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Here the tables are made by the tests."""
    return f"sqlite:///{tmp_path / 'memory.db'}"


@pytest.fixture
def postgres_url(empty_postgres_url: str) -> str:
    """Here the tables are made by the tests."""
    return empty_postgres_url


pytestmark = pytest.mark.anyio
FORKED = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")

PROCESSES = 8
LATEST = runner.latest_version("sqlite")
VERSIONS_AND_NAMES = [(step.version, step.name) for step in runner.migrations("sqlite")]
VERSIONS = [(step.version,) for step in runner.migrations("sqlite")]


async def reopened(url: str) -> Database:
    return await open_database(url, Path())


@contextlib.asynccontextmanager
async def opened_as_of(version: int, url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """The database as an older layerlore made and opened it, which knew no step behind this version."""
    known = {dialect: runner.migrations(dialect)[:version] for dialect in ("sqlite", "postgres")}
    with monkeypatch.context() as patched:
        patched.setattr(runner, "migrations", lambda dialect: known[dialect])
        database = await reopened(url)
        try:
            yield database
        finally:
            await database.close()


@pytest.fixture
async def server(database_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record] | None"]:
    """A connection to look at an unopened Postgres with; None on SQLite."""
    if database_url.startswith("sqlite"):
        yield None
        return
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def tables(url: str, server: "asyncpg.Connection[asyncpg.Record] | None") -> set[str]:
    """The names in the catalogue, seen without opening the database as ours."""
    if server is not None:
        sql = "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        return {row[0] for row in await server.fetch(sql)}
    connection = driver.connect(url.removeprefix("sqlite://"), synchronous="OFF")
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    finally:
        connection.close()


@FORKED
async def test_processes_that_start_together_on_an_empty_database_all_succeed(
    forking: Forking, database_url: str
) -> None:
    forking.order("open_it", children=PROCESSES, url=database_url)
    lines, codes = await forking.until_codes()
    assert [line for line in lines if "error" in line] == []
    assert codes == [0] * PROCESSES
    keys = {line["key"] for line in lines if "key" in line}
    assert len(keys) == 1, "one installation has one secret"
    database = await reopened(database_url)
    try:
        assert (
            await database.read_installation(rows, "SELECT version FROM schema_migrations ORDER BY version") == VERSIONS
        )
        await say(database, "main", draft("walrus"))
        assert len(await having(database, "walrus")) == 1
    finally:
        await database.close()


@pytest.mark.programs
@FORKED
async def test_a_kill_at_any_statement_leaves_the_database_as_it_was(
    forking: Forking, database_url: str, server: "asyncpg.Connection[asyncpg.Record] | None"
) -> None:
    left: list[set[str]] = []
    for statements in range(400):
        forking.order("migrate_and_die", url=database_url, statements=statements)
        lines, (code,) = await forking.until_codes()
        assert [line for line in lines if "error" in line] == []
        if code == 0:
            break
        assert code == 9
        left.append(await tables(database_url, server))
    # What follows COMMIT is a statement, too.
    complete = await tables(database_url, server)
    assert [found for found in left[:-1] if found] == []
    assert left[-1] in (set(), complete)
    # SQLite: two looks at the version, BEGIN, the ledger, every statement of the file, what follows it, COMMIT.
    assert statements >= (20 if server is None else 8)
    assert "messages" in complete
    database = await reopened(database_url)
    try:
        assert (await say(database, "main", draft())).stored[0].seq == 1
    finally:
        await database.close()


def with_another(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """From now on there is one more step."""
    known = {dialect: runner.migrations(dialect) for dialect in ("sqlite", "postgres")}

    def migrations(dialect: str) -> tuple[Migration, ...]:
        return (*known[dialect], Migration(LATEST + 1, "another", sql))

    monkeypatch.setattr(runner, "migrations", migrations)


async def test_a_step_that_fails_leaves_the_database_at_the_step_before(
    database: Database,
    database_url: str,
    server: "asyncpg.Connection[asyncpg.Record] | None",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await say(database, "main", draft("walrus"))
    before = await tables(database_url, server)
    with_another(
        monkeypatch,
        "CREATE TABLE extra (a TEXT);\nALTER TABLE messages ADD COLUMN mood TEXT;\n"
        "UPDATE messages SET mood = 'glad';\nINSERT INTO nowhere VALUES (1);\n",
    )
    with pytest.raises(Exception, match="nowhere"):
        await (await reopened(database_url)).close()
    assert await tables(database_url, server) == before
    assert await database.read_installation(rows, "SELECT version FROM schema_migrations ORDER BY version") == VERSIONS
    assert len(await having(database, "walrus")) == 1
    with pytest.raises(Exception, match="mood"):
        await only(database, "SELECT mood FROM messages")


async def test_only_the_steps_that_are_missing_are_taken_and_what_is_stored_stays(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(database, "main", draft("walrus"))
    key = await only(database, "SELECT value FROM installation WHERE name = 'hmac_key'")
    await database.close()
    with_another(
        monkeypatch,
        "CREATE TABLE extra (a TEXT);\n-- A comment; with a semicolon.\nINSERT INTO extra VALUES ('one;two');\n",
    )
    opened = await asyncio.gather(*(reopened(database_url) for _ in range(3)))
    again = opened[0]
    try:
        steps = await again.read_installation(rows, "SELECT version, name FROM schema_migrations ORDER BY version")
        assert steps[0] == (1, "messages_and_threads")
        assert steps[1:] == [*VERSIONS_AND_NAMES[1:], (LATEST + 1, "another")]
        assert await only(again, "SELECT a FROM extra") == "one;two"
        assert await only(again, "SELECT value FROM installation WHERE name = 'hmac_key'") == key
        assert await seqs(again, "main") == [1]
    finally:
        for one in opened:
            await one.close()


async def test_a_step_may_take_longer_than_any_other_statement_and_others_wait_for_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await reopened(postgres_url)).close()
    with_another(monkeypatch, "SELECT pg_sleep(1);\nCREATE TABLE extra (a TEXT);\n")
    monkeypatch.setattr(postgres_database, "STATEMENT_SECONDS", 0.5)
    opened: list[Database] = []

    async def open_one() -> None:
        opened.append(await reopened(postgres_url))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_one)
        tasks.start_soon(open_one)
    for database in opened:
        assert await database.read_installation(rows, "SELECT count(*) FROM extra") == [(0,)]
        await database.close()


async def test_a_database_of_a_newer_version_is_refused_and_left_alone(database: Database, database_url: str) -> None:
    await say(database, "main", draft())
    await database.write_installation(execute, "INSERT INTO schema_migrations VALUES (99, 'from the future', 0)")
    before = await database.read_installation(rows, "SELECT * FROM schema_migrations ORDER BY version")
    with pytest.raises(DatabaseTooNew, match=rf"version 99, and this layerlore knows versions up to {LATEST}.*Upgrade"):
        await (await reopened(database_url)).close()
    assert await database.read_installation(rows, "SELECT * FROM schema_migrations ORDER BY version") == before


async def test_what_the_first_version_stored_is_there_after_the_later_steps(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_as_of(1, database_url, monkeypatch) as old:
        values = "'local', 'agent', 'ana', 'uid', 'main'"
        await old.write_installation(
            execute,
            "INSERT INTO threads (tenant_id, agent_id, resource_id, thread_uid, thread_id, metadata, created_at, "
            f"updated_at, next_seq, last_created_at, message_count, token_count) VALUES ({values}, '{{}}', 5, 6, 1, 0, 0, 0)",
        )
    database = await reopened(database_url)
    try:
        assert (
            await database.read_installation(rows, "SELECT version FROM schema_migrations ORDER BY version") == VERSIONS
        )
        assert (await database.read(threads.find, ANA, "main")).updated_at == 6
        assert (await say(database, "main", draft("walrus"))).thread.thread_uid == "uid"
    finally:
        await database.close()


BEFORE_ENTRIES_WERE_SEARCHED = """
INSERT INTO threads (tenant_id, agent_id, resource_id, thread_uid, thread_id, title, metadata, created_at, updated_at,
    next_seq, last_created_at, message_count, token_count)
VALUES ('local', 'agent', 'ana', 'uid', 'main', 'Walrus', '{}', 5, 5, 4, 5, 3, 9);
INSERT INTO messages (tenant_id, agent_id, resource_id, thread_uid, seq, id, role, parts, metadata, tokens, encoding,
    created_at, said_at, revision)
SELECT 'local', 'agent', 'ana', 'uid', n, 'm' || n, 'user', '[]', '{}', 3, 'none', 5, 5, 1
FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3) AS numbers;
INSERT INTO search_rows (tenant_id, agent_id, resource_id, thread_uid, seq, chunk, text_version, role, said_at, chars,
    session_seq, @lexemes)
SELECT tenant_id, agent_id, resource_id, thread_uid, seq, 0, 2, role, 5, 6, 1, @walrus FROM messages ORDER BY seq;
INSERT INTO search_vectors SELECT row_id, 'm', 's', 8, @code, @vector FROM search_rows;
DELETE FROM messages WHERE seq = 3;
"""
OF_DIALECT = {
    "sqlite": {"@lexemes": "session_mark", "@walrus": "NULL", "@code": "x'01'", "@vector": "x'01'"},
    "postgres": {"@lexemes": "lexemes", "@walrus": "'walrus'::tsvector", "@code": "B'1'", "@vector": "'\\x01'"},
}
AN_ENTRY = """
INSERT INTO entries (tenant_id, agent_id, resource_id, entry_id, content, content_hash, status, origin, trust, model,
    prompt, created_at, seen_at)
VALUES ('local', 'agent', 'ana', 'e', 'c', 'h', 'active', 'extracted', 'user', 'm', 'p', 1, 1)
"""


async def test_searched_rows_keep_their_ids_words_and_vectors_when_entries_join_them(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_as_of(4, database_url, monkeypatch) as old:
        script = BEFORE_ENTRIES_WERE_SEARCHED
        for name, value in OF_DIALECT[old.backend.name].items():
            script = script.replace(name, value)
        for statement in script.split(";\n")[:-1]:
            await old.write_installation(execute, statement)
        if old.backend.name == "sqlite":
            words = "INSERT INTO search_text (rowid, text, scope) SELECT row_id, 'walrus', '1' FROM search_rows"
            await old.write_installation(execute, words)
        kept = await old.read_installation(rows, "SELECT row_id, seq FROM search_rows ORDER BY row_id")
    database = await reopened(database_url)
    try:
        assert [seq for _, seq in kept] == [1, 2]
        (first, _), (second, _) = kept
        assert await database.read_installation(rows, "SELECT row_id, seq FROM search_rows ORDER BY row_id") == kept
        assert await database.read_installation(rows, "SELECT row_id FROM search_vectors ORDER BY 1") == [
            (first,),
            (second,),
        ]
        assert await database.read_installation(rows, "SELECT raw_tokens, title_by FROM threads") == [(9, "caller")]
        new = (await say(database, "main", draft("walrus", id="new"))).stored[0].seq
        assert await only(database, f"SELECT row_id FROM search_rows WHERE seq = {new}") > second + 1, "never again"
        # What a foreign key did: rows go with their message, and vectors and words with their row.
        await database.write_installation(execute, "DELETE FROM messages WHERE seq = 1")
        assert await only(database, "SELECT min(row_id) FROM search_rows") == second
        assert await only(database, "SELECT min(row_id) FROM search_vectors") == second
        if database.backend.name == "sqlite":
            assert await only(database, "SELECT min(rowid) FROM search_text") == second
        await database.write_installation(execute, AN_ENTRY)
        await database.write_installation(
            execute, "UPDATE search_rows SET thread_uid = 'entry:e', seq = 1 WHERE seq = 2"
        )
        await database.write_installation(execute, "DELETE FROM entries")
        assert await database.read_installation(rows, "SELECT seq FROM search_rows") == [(new,)]
    finally:
        await database.close()


KEPT_ANSWER = """
INSERT INTO idempotency (tenant_id, agent_id, resource_id, key, body_hmac, answer, created_at)
VALUES ('local', 'agent', 'ana', '{key}', 'body', '{{"n": 1}}', 1)
"""


async def test_keys_that_were_kept_as_sent_are_kept_as_hashes_and_still_known(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_as_of(11, database_url, monkeypatch) as old:
        for key in ("schlüssel-🔑", "\x01forget:token"):
            await old.write_installation(execute, KEPT_ANSWER.format(key=key))
    database = await reopened(database_url)
    try:
        kept = await database.read(idempotency.find_kept, ANA, Request("schlüssel-🔑", "body"))
        assert kept == {"n": 1}
        told = repr(await database.read_installation(rows, "SELECT key FROM idempotency"))
        assert "schlüssel" not in told
        assert await database.read(forget_candidates.chosen_by, ANA, "token") == {"n": 1}
    finally:
        await database.close()


BEFORE_PLANS_WERE_OPEN = """
INSERT INTO threads (tenant_id, agent_id, resource_id, thread_uid, thread_id, metadata, created_at, updated_at,
    next_seq, last_created_at, message_count, token_count)
SELECT 'local', 'agent', 'ana', name, name, '{}', 5, 5, 1, 0, 0, 0
FROM (SELECT 'begun' AS name UNION SELECT 'going' UNION SELECT 'done' UNION SELECT 'quoted') AS names;
INSERT INTO plans (tenant_id, agent_id, resource_id, thread_uid, revision, plan, actor, created_at)
SELECT 'local', 'agent', 'ana', thread_uid, 1, '{"goal":"old","steps":[]}', 'a', 6 FROM threads;
INSERT INTO plans (tenant_id, agent_id, resource_id, thread_uid, revision, plan, actor, created_at) VALUES
    ('local', 'agent', 'ana', 'going', 2, '{"goal":"new","steps":[{"id":"s1","status":"in_progress"}]}', 'a', 7),
    ('local', 'agent', 'ana', 'done', 2, '{"goal":"new","steps":[{"id":"s1","status":"completed"}]}', 'a', 7),
    ('local', 'agent', 'ana', 'quoted', 2,
     '{"goal":"say \\"status\\":\\"pending\\"","steps":[{"id":"s1","status":"failed"}]}', 'a', 7)
"""


async def test_plans_that_were_kept_before_are_open_if_something_in_them_is_left(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_as_of(14, database_url, monkeypatch) as old:
        for statement in BEFORE_PLANS_WERE_OPEN.split(";\n"):
            await old.write_installation(execute, statement)
    database = await reopened(database_url)
    try:
        work = await database.read(open_work.find_open, ANA, other_than="", now=9, most=9)
        assert [(each.thread_id, each.plan["goal"]) for each in work.plans] == [("going", "new"), ("begun", "old")]
    finally:
        await database.close()


async def test_entries_that_were_kept_before_are_not_pinned_and_can_be(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_as_of(24, database_url, monkeypatch) as old:
        await old.write_installation(execute, AN_ENTRY.replace("extracted", "caller"))
    database = await reopened(database_url)
    try:
        (kept,) = (await database.read(entries.read_seen, ANA, ["e"])).values()
        assert (kept.content, kept.status, kept.pinned_at) == ("c", "active", None)
        await database.write(entry_marks.pin, ANA, "e", at=9)
        assert [each.pinned_at for each in await database.read(entry_marks.read_pinned, ANA)] == [9]
    finally:
        await database.close()


async def test_entries_that_were_kept_before_have_no_unproven_words(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened_as_of(26, database_url, monkeypatch) as old:
        await old.write_installation(execute, AN_ENTRY.replace("extracted", "caller"))
    database = await reopened(database_url)
    try:
        (kept,) = (await database.read(entries.read_seen, ANA, ["e"])).values()
        assert (kept.content, kept.unproven_words) == ("c", [])
    finally:
        await database.close()


def test_steps_are_numbered_from_one_without_gaps_and_alike_for_both_databases() -> None:
    steps = {dialect: [(m.version, m.name) for m in runner.migrations(dialect)] for dialect in ("sqlite", "postgres")}
    assert steps["sqlite"] == steps["postgres"]
    assert [version for version, _ in steps["sqlite"]] == list(range(1, len(steps["sqlite"]) + 1))
