"""The journal only grows, and says what was committed."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from seeing_all import see_all
from sqlalchemy import text

from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import Journaled, JournalFilter, JournalLine
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.transaction import PostgresTx
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.threads import threads

from ..building import ANA, BEN, NOW, only, rows, uid

pytestmark = pytest.mark.anyio

LINE = JournalLine(NOW, "key:k1", "coder 1.0", "add_messages", "done", "a" * 32, {"messages": 2})
OTHER = Scope("another-tenant", "agent", "ana")


async def append(database: Database, *lines: JournalLine, scope: Scope = ANA) -> None:
    for line in lines:
        await database.write(journal_rows.append, scope, line)


async def listed(database: Database, wanted: JournalFilter | None = None, *, limit: int = 100) -> list[Journaled]:
    return await database.read_installation(journal_rows.read_lines, wanted or JournalFilter(), limit=limit)


async def lines(database: Database, wanted: JournalFilter | None = None, *, limit: int = 100) -> list[JournalLine]:
    return [row.line for row in await listed(database, wanted, limit=limit)]


async def refuses(database: Database, sql: str) -> None:
    async def change(tx: Tx) -> None:
        await see_all(tx)
        await tx.run(text(sql))

    with pytest.raises(Exception, match="the journal is only appended to"):
        await database.write_installation(change)


async def test_a_line_is_kept_as_it_was_appended(database: Database) -> None:
    failed = replace(LINE, outcome="failed", counts={}, reason="Conflict")
    await append(database, LINE, failed)
    first, second = await listed(database)
    assert (first.tenant_id, first.agent_id, first.line) == (ANA.tenant_id, ANA.agent_id, LINE)
    assert second.line == failed
    assert second.row_id > first.row_id
    assert ANA.resource_id not in repr(await database.read_installation(rows, "SELECT * FROM journal"))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE journal SET outcome = 'denied'",
        "UPDATE journal SET at = at + 1 WHERE counts <> ''",
        "DELETE FROM journal",
        "DELETE FROM journal WHERE at < 0 OR outcome = 'done'",
    ],
)
async def test_no_line_is_changed_or_deleted(database: Database, sql: str) -> None:
    await append(database, LINE)
    await refuses(database, sql)
    assert await lines(database) == [LINE]


async def test_on_postgres_the_table_is_not_emptied_either(postgres_url: str) -> None:
    database = await PostgresDatabase.open(postgres_url)
    try:
        await append(database, LINE)
        await refuses(database, "TRUNCATE journal")
        assert await lines(database) == [LINE]
    finally:
        await database.close()


class Undone(Exception):
    pass


async def test_a_line_is_there_if_and_only_if_its_transaction_was_committed(database: Database) -> None:
    async def write(tx: Tx, scope: Scope, name: str, fails: bool) -> None:
        await threads.lock_or_make(tx, ANA, name, uid(), NOW)
        await journal_rows.append(tx, ANA, replace(LINE, client=name))
        if fails:
            raise Undone

    outcomes = await asyncio.gather(
        *(database.write(write, ANA, f"t{n}", n % 3 == 0) for n in range(12)), return_exceptions=True
    )
    committed = {f"t{n}" for n, outcome in enumerate(outcomes) if outcome is None}
    assert len(committed) == 8
    assert {line.client for line in await lines(database)} == committed
    assert {row[0] for row in await database.read_installation(rows, "SELECT thread_id FROM threads")} == committed


async def test_the_newest_lines_are_listed_the_newest_last_as_they_are_wanted(database: Database) -> None:
    made = [
        replace(LINE, at=NOW + n, principal=f"key:{n % 2}", tool=("remember", "forget")[n % 2], resource_mark=str(n))
        for n in range(6)
    ]
    await append(database, *made[:5])
    denied = replace(made[5], outcome="denied", reason="NotPermitted")
    await append(database, denied, scope=OTHER)
    assert await lines(database) == [*made[:5], denied]
    assert await lines(database, limit=2) == [made[4], denied]
    assert await lines(database, JournalFilter(tenant_id=ANA.tenant_id)) == made[:5]
    assert await lines(database, JournalFilter(tenant_id=ANA.tenant_id), limit=1) == [made[4]]
    assert await lines(database, JournalFilter(since=NOW + 2, until=NOW + 3)) == made[2:4]
    assert await lines(database, JournalFilter(principal="key:0")) == made[0:5:2]
    assert await lines(database, JournalFilter(tool="forget")) == [made[1], made[3], denied]
    assert await lines(database, JournalFilter(outcome="denied")) == [denied]
    assert await lines(database, JournalFilter(resource_mark="3")) == [made[3]]
    assert await lines(database, JournalFilter(principal="key:0", tool="forget")) == []


async def test_pruning_removes_what_is_old_of_all_tenants_and_the_table_is_closed_again(database: Database) -> None:
    old = [replace(LINE, at=NOW + n) for n in range(5)]
    await append(database, *old[:3])
    await append(database, *old[3:], scope=OTHER)
    before = await listed(database)
    assert await database.write_installation(journal_rows.prune, before=NOW + 4, most=3) == 3
    assert await database.write_installation(journal_rows.prune, before=NOW + 4, most=3) == 1
    assert await database.write_installation(journal_rows.prune, before=NOW + 4, most=3) == 0
    assert await listed(database) == before[4:]
    await refuses(database, "DELETE FROM journal")


async def test_a_prune_that_fails_leaves_the_lines_and_the_table_closed(database: Database) -> None:
    await append(database, LINE)

    async def prune(tx: Tx) -> None:
        await journal_rows.prune(tx, before=NOW + 1)
        raise Undone

    with pytest.raises(Undone):
        await database.write_installation(prune)
    await refuses(database, "DELETE FROM journal")
    assert await lines(database) == [LINE]


async def test_a_number_is_never_given_again(database: Database) -> None:
    await append(database, LINE, LINE)
    last = (await listed(database))[-1].row_id
    assert await database.write_installation(journal_rows.prune, before=NOW + 1) == 2
    await append(database, LINE)
    assert (await listed(database))[0].row_id > last


async def test_on_sqlite_pruning_leaves_the_triggers_as_the_migration_made_them(tmp_path: Path) -> None:
    database = await SqliteDatabase.open(str(tmp_path / "memory.db"))
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'journal' ORDER BY name"
    try:
        before = await database.read_installation(rows, query)
        assert [name for name, _ in before] == ["journal_no_delete", "journal_no_update"]
        await database.write_installation(journal_rows.prune, before=NOW)
        assert await database.read_installation(rows, query) == before
    finally:
        await database.close()


async def test_whoever_opens_the_database_as_its_owner_may_read_and_prune(database: Database) -> None:
    assert await database.read_installation(journal_rows.may, "SELECT")
    assert await database.read_installation(journal_rows.may, "DELETE")


async def test_other_scopes_lines_are_told_apart_by_their_tenants(database: Database) -> None:
    for scope in (ANA, BEN, OTHER):
        await append(database, LINE, scope=scope)
    assert await only(database, "SELECT count(DISTINCT tenant_id) FROM journal") == 2


POLICY = """
    ALTER TABLE journal ENABLE ROW LEVEL SECURITY;
    DROP POLICY IF EXISTS scope ON journal;
    CREATE POLICY scope ON journal FOR INSERT
        WITH CHECK (tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), '')))
"""


@pytest.fixture
async def appender(postgres_url: str, postgres_admin_url: str) -> AsyncIterator[Any]:
    """A connection of a role that was granted nothing but to append to the journal."""
    name = f"appender_{uuid.uuid4().hex[:8]}"
    admin, owner = await asyncpg.connect(postgres_admin_url), await asyncpg.connect(postgres_url)
    await (await PostgresDatabase.open(postgres_url)).close()
    schema = await owner.fetchval("SELECT current_schema()")
    await admin.execute(f"CREATE ROLE {name} LOGIN NOSUPERUSER PASSWORD '{name}'")
    await owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {name}; GRANT INSERT ON journal TO {name}")
    await owner.execute(POLICY)
    connection = await asyncpg.connect(postgres_url, user=name, password=name)
    await connection.execute(f"SELECT set_config('layerlore.tenant', '{ANA.tenant_id}', false)")
    yield connection
    await connection.close()
    await owner.execute(f"REVOKE ALL ON journal FROM {name}; REVOKE ALL ON SCHEMA {schema} FROM {name}")
    await admin.execute(f"DROP ROLE {name}")
    await admin.close()
    await owner.close()


async def test_a_role_that_may_only_append_appends_for_its_tenant_and_does_nothing_else(appender: Any) -> None:
    tx = PostgresTx(appender)
    await journal_rows.append(tx, ANA, LINE)
    assert not await journal_rows.may(tx, "SELECT")
    assert not await journal_rows.may(tx, "DELETE")
    for forbidden in (journal_rows.read_lines(tx, JournalFilter(), limit=1), journal_rows.prune(tx, before=NOW + 1)):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await forbidden
    await journal_rows.append(tx, OTHER, LINE)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await tx.send_waiting()
