"""`configs/citus.sql` distributes the tables that the schema has, in an order and by a column that Citus takes."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
CALL = re.compile(r"^SELECT create_(reference|distributed)_table\('(\w+)'(?:, '(\w+)', colocate_with => '(\w+)')?\);$")
OF_THE_INSTALLATION = {"api_keys", "installation", "schema_migrations", "spending"}


def calls() -> list[tuple[str, str, str, str]]:
    """Kind, table, distribution column and the table that it lies beside, in the order of the file."""
    lines = (ROOT / "configs" / "citus.sql").read_text().splitlines()
    statements = [line for line in lines if line and not line.startswith(("--", "SET "))]
    found = [match.groups(default="") for line in statements if (match := CALL.match(line))]
    assert len(found) == len(statements), "a line that is no call"
    return [(kind, table, column, beside) for kind, table, column, beside in found]


@pytest.fixture
async def migrated(postgres_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


async def test_every_table_is_named_once(migrated: "asyncpg.Connection[asyncpg.Record]") -> None:
    tables = await migrated.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    named = [table for _, table, _, _ in calls()]
    assert sorted(named) == sorted(name for (name,) in tables)
    assert {table for kind, table, _, _ in calls() if kind == "reference"} == OF_THE_INSTALLATION


async def test_the_column_is_in_every_unique_index_and_the_rows_of_a_tenant_lie_together(
    migrated: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    unique = await migrated.fetch(
        "SELECT t.relname, array_agg(a.attname::text) FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid"
        " JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY(x.indkey)"
        " WHERE x.indisunique AND t.relnamespace = current_schema()::regnamespace GROUP BY t.relname, x.indexrelid"
    )
    distributed = {table: column for kind, table, column, _ in calls() if kind == "distributed"}
    for table, columns in unique:
        assert table in OF_THE_INSTALLATION or distributed[table] in columns
    assert {table for table, column in distributed.items() if column != "tenant_id"} == {"last_writes"}
    alone = {table for kind, table, _, beside in calls() if kind == "distributed" and beside != "threads"}
    assert alone == {"last_writes", "threads"}


async def test_a_table_stands_behind_those_that_its_foreign_keys_name(
    migrated: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    keys = await migrated.fetch(
        "SELECT c.relname, p.relname FROM pg_constraint JOIN pg_class c ON c.oid = conrelid"
        " JOIN pg_class p ON p.oid = confrelid"
        " WHERE contype = 'f' AND connamespace = current_schema()::regnamespace"
    )
    order = [table for _, table, _, _ in calls()]
    assert keys
    assert not [(child, parent) for child, parent in keys if order.index(child) < order.index(parent)]


async def test_the_documents_name_each_trigger_that_citus_does_not_run(
    migrated: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    section = (ROOT / "docs" / "scaling.md").read_text().partition("## Citus")[2].partition("\n## ")[0]
    found = await migrated.fetch(
        "SELECT tgname::text FROM pg_trigger JOIN pg_class t ON t.oid = tgrelid"
        " WHERE NOT tgisinternal AND t.relnamespace = current_schema()::regnamespace"
    )
    names = {name for (name,) in found}
    counting = {name for name in names if re.fullmatch(r"\w+_count_(insert|update|delete)", name)}
    assert "messages_count_insert" in counting
    assert not [name for name in names - counting if f"`{name}`" not in section]
    assert len(counting) == 3 * 9, "the section says nine tables"
