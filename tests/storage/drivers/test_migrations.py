"""Migrations: many processes at once, a kill at any statement, a failure half way, a newer or an earlier database."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import asyncpg
import pytest

from layerlore.storage.core.errors import DatabaseTooNew, DatabaseTooOld
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.dialect import open_database
from layerlore.storage.drivers.migrations import runner
from layerlore.storage.drivers.migrations.runner import Migration
from layerlore.storage.drivers.postgres import database as postgres_database
from layerlore.storage.drivers.sqlite import driver

from ...conformance.building import draft, execute, having, only, rows, say, seqs
from ..conftest import Forking


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
VERSIONS = [(step.version,) for step in runner.migrations("sqlite")]


async def reopened(url: str) -> Database:
    return await open_database(url, Path())


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
        known = runner.migrations(again.backend.name)
        assert steps == [(step.version, step.name) for step in known]
        assert steps[-1] == (LATEST + 1, "another")
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


LEDGER_OF_BEFORE = """
CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL);
INSERT INTO schema_migrations VALUES (1, 'messages_and_threads', 0), (@version, 'later', 0);
CREATE TABLE messages (a TEXT)
"""


@pytest.mark.parametrize("version", [2, 31])
async def test_a_database_of_before_the_baseline_is_refused_and_left_alone(
    version: int, database_url: str, server: "asyncpg.Connection[asyncpg.Record] | None"
) -> None:
    script = LEDGER_OF_BEFORE.replace("@version", str(version))
    if server is not None:
        await server.execute(script)
    else:
        with contextlib.closing(driver.connect(database_url.removeprefix("sqlite://"), synchronous="OFF")) as file:
            file.executescript(script)
    before = await tables(database_url, server)
    carried_over = (
        r"export it with the layerlore that made it \(`layerlore export`\), and import .* \(`layerlore import`\)"
    )
    with pytest.raises(DatabaseTooOld, match=carried_over):
        await (await reopened(database_url)).close()
    assert await tables(database_url, server) == before


A_VECTOR = "INSERT INTO search_vectors SELECT @key, 'm', 's', 8, @code, @vector FROM search_rows"
OF_DIALECT = {
    "sqlite": {"@key": "row_id", "@code": "x'01'", "@vector": "x'01'"},
    "postgres": {"@key": "tenant_id, row_id", "@code": "B'1'", "@vector": "'\\x01'"},
}
AN_ENTRY = """
INSERT INTO entries (tenant_id, agent_id, resource_id, entry_id, content, content_hash, status, origin, trust, model,
    prompt, created_at, seen_at)
VALUES ('local', 'agent', 'ana', 'e', 'c', 'h', 'active', 'extracted', 'user', 'm', 'p', 1, 1)
"""


async def test_searched_rows_go_with_their_message_or_entry_and_their_ids_are_never_given_again(
    database: Database,
) -> None:
    await say(database, "main", draft("walrus"), draft("walrus"), draft("walrus"))
    script = A_VECTOR
    for name, value in OF_DIALECT[database.backend.name].items():
        script = script.replace(name, value)
    await database.write_installation(execute, script)
    found = await database.read_installation(rows, "SELECT row_id FROM search_rows ORDER BY seq")
    (first,), (second,), (third,) = found
    assert first < second < third
    await database.write_installation(execute, "DELETE FROM messages WHERE seq = 3")
    new = (await say(database, "main", draft("walrus", id="new"))).stored[0].seq
    assert await only(database, f"SELECT row_id FROM search_rows WHERE seq = {new}") > third, "never again"
    # Rows go with their message, and vectors and words with their row.
    await database.write_installation(execute, "DELETE FROM messages WHERE seq = 1")
    assert await only(database, "SELECT min(row_id) FROM search_rows") == second
    assert await database.read_installation(rows, "SELECT row_id FROM search_vectors") == [(second,)]
    if database.backend.name == "sqlite":
        assert await only(database, "SELECT min(rowid) FROM search_text") == second
    await database.write_installation(execute, AN_ENTRY)
    await database.write_installation(execute, "UPDATE search_rows SET thread_uid = 'entry:e', seq = 1 WHERE seq = 2")
    await database.write_installation(execute, "DELETE FROM entries")
    assert await database.read_installation(rows, "SELECT seq FROM search_rows") == [(new,)]


def test_steps_are_numbered_from_one_without_gaps_and_those_after_the_first_are_alike() -> None:
    steps = {dialect: [(m.version, m.name) for m in runner.migrations(dialect)] for dialect in ("sqlite", "postgres")}
    assert steps["sqlite"][1:] == steps["postgres"][1:]
    assert [version for version, _ in steps["sqlite"]] == list(range(1, len(steps["sqlite"]) + 1))
