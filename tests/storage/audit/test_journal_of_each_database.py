"""How each database keeps its journal from being changed."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import JournalFilter
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.transaction import PostgresTx
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

from ...conformance.audit.test_journal_contract import LINE, OTHER, POLICY, append, lines, refuses
from ...conformance.building import ANA, NOW, rows

pytestmark = pytest.mark.anyio


async def test_on_postgres_the_table_is_not_emptied_either(postgres_url: str) -> None:
    database = await PostgresDatabase.open(postgres_url)
    try:
        await append(database, LINE)
        await refuses(database, "TRUNCATE journal")
        assert await lines(database) == [LINE]
    finally:
        await database.close()


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
