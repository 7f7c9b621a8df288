"""The migrations make what ``storage.core.tables`` says: the same tables, columns, keys and indexes, on both databases."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy.schema import CreateIndex, CreateTable

from layerlore.storage.core.tables import journal, metadata, search_rows, search_vectors
from layerlore.storage.drivers.postgres import sql as postgres_sql
from layerlore.storage.drivers.postgres.migration import migrate_postgres
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite import sql as sqlite_sql
from layerlore.storage.drivers.sqlite.migration import migrate_sqlite


@pytest.fixture
def postgres_url(empty_postgres_url: str) -> str:
    """Here the tables are made by the tests."""
    return empty_postgres_url


pytestmark = pytest.mark.anyio

Catalogue = dict[str, list[tuple[Any, ...]]]


def statements(dialect: Any) -> list[str]:
    """What makes the tables that the metadata declare."""
    made: list[str] = []
    for table in metadata.sorted_tables:
        made.append(str(CreateTable(table).compile(dialect=dialect)))
        for index in table.indexes:
            where = f" WHERE {index.info['where']}" if "where" in index.info else ""
            made.append(f"{CreateIndex(index).compile(dialect=dialect)}{where}")
    return made


def sqlite_catalogue(connection: driver.Connection) -> Catalogue:
    """For each table: its columns, foreign keys and indexes with what SQLite knows of them."""
    found: Catalogue = {}
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for name in names:
        columns = connection.execute(f'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info("{name}")')
        keys = connection.execute(
            f'SELECT "table", "from", "to", on_update, on_delete FROM pragma_foreign_key_list("{name}") ORDER BY seq'
        )
        indexes = connection.execute(
            'SELECT l.name, l."unique", l.origin, l.partial, x.seqno, x.name, x.desc, x.coll, m.sql '
            f"FROM pragma_index_list('{name}') l JOIN pragma_index_xinfo(l.name) x "
            "LEFT JOIN sqlite_master m ON m.name = l.name WHERE x.key ORDER BY l.name, x.seqno"
        )
        found[name] = [*columns, *keys, *((*row[:-1], _plain(row[-1])) for row in indexes)]
    return found


def _plain(sql: str | None) -> str | None:
    return sql and " ".join(sql.replace('"', "").split())


async def postgres_catalogue(connection: Any, schema: str) -> Catalogue:
    await connection.execute(f"SET search_path TO {schema}")
    queries = (
        "SELECT relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull, collname, attidentity::text "
        "FROM pg_attribute JOIN pg_class c ON c.oid = attrelid LEFT JOIN pg_collation k ON k.oid = attcollation "
        "WHERE relkind = 'r' AND attnum > 0 AND relnamespace = current_schema()::regnamespace ORDER BY 1, 2",
        "SELECT relname, contype::text, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c "
        "ON c.oid = conrelid WHERE connamespace = current_schema()::regnamespace AND contype <> 'n' ORDER BY 1, 2, 3",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1, 2",
    )
    found: Catalogue = {}
    for query in queries:
        for name, *rest in await connection.fetch(query):
            plain = tuple(part.replace(f"{schema}.", "") if isinstance(part, str) else part for part in rest)
            found.setdefault(name, []).append(plain)
    return found


@pytest.fixture
async def both(postgres_url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[Catalogue, Catalogue]]]]:
    """Postgres: what was migrated, and what the metadata make, in schemas of their own."""
    connection = await asyncpg.connect(postgres_url)
    schema = await connection.fetchval("SELECT current_schema()")

    async def catalogues() -> tuple[Catalogue, Catalogue]:
        await migrate_postgres(connection)
        await connection.execute(f"CREATE SCHEMA {schema}_declared")
        await connection.execute(f"SET search_path TO {schema}_declared")
        for statement in statements(postgres_sql.DIALECT):
            await connection.execute(statement)
        declared = await postgres_catalogue(connection, f"{schema}_declared")
        return await postgres_catalogue(connection, schema), declared

    yield catalogues
    await connection.execute(f"DROP SCHEMA IF EXISTS {schema}_declared CASCADE")
    await connection.close()


async def test_on_sqlite_the_migrations_make_what_the_tables_declare(tmp_path: Path) -> None:
    migrated = driver.connect(str(tmp_path / "migrated.db"), synchronous="OFF")
    declared = driver.connect(":memory:", synchronous="OFF")
    try:
        migrate_sqlite(migrated)
        for statement in statements(sqlite_sql.DIALECT):
            declared.execute(statement)
        ours, expected = sqlite_catalogue(migrated), sqlite_catalogue(declared)
        rest = {name for name in ours.keys() - expected.keys() if not name.startswith("search_text")}
        assert {name: ours[name] for name in expected} == expected
        assert rest == {"journal", "schema_migrations", "search_rows", "search_vectors", "sqlite_sequence"}
        # An explicit INTEGER PRIMARY KEY is what the full-text index's row ids may hang on.
        row_id = {"row_id": "INTEGER"}
        for table, different in ((search_rows, row_id), (search_vectors, {}), (journal, row_id)):
            columns = {row[0]: (row[1], not row[2]) for row in ours[table.name] if row[0] in table.c and len(row) == 5}
            assert {name: kind for name, (kind, _) in columns.items()} == {
                **{c.name: str(c.type.compile(sqlite_sql.DIALECT)) for c in table.c},
                **different,
            }
            nullable = {name for name, (_, may) in columns.items() if may and name != "row_id"}
            assert nullable == {c.name for c in table.c if c.nullable}
    finally:
        migrated.close()
        declared.close()


async def test_on_postgres_the_migrations_make_what_the_tables_declare(
    both: Callable[[], Awaitable[tuple[Catalogue, Catalogue]]],
) -> None:
    ours, expected = await both()
    assert {name: ours[name] for name in expected} == expected
    rest = {"journal", "schema_migrations", "search_rows", "search_vectors", "last_writes"}
    assert ours.keys() - expected.keys() == rest
    different = {"code": "bit varying", "vector": "bytea"}
    for table in (search_rows, search_vectors, journal):
        columns = {row[1]: (row[2], not row[3]) for row in ours[table.name] if len(row) == 6 and row[1] != "lexemes"}
        assert {name: kind for name, (kind, _) in columns.items()} == {
            c.name: different.get(c.name, str(c.type.compile(postgres_sql.DIALECT)).lower()) for c in table.c
        }
        assert {name for name, (_, may) in columns.items() if may} == {c.name for c in table.c if c.nullable}


def test_every_tenants_table_leads_its_key_with_the_scope() -> None:
    for table in metadata.sorted_tables:
        # A key is found before its tenant is known; what a tenant spent is of no agent and resource, and what
        # is stored of a resource is counted of all agents together.
        if "tenant_id" in table.c and table.name not in ("api_keys", "stored_bytes", "tenant_spending"):
            assert [column.name for column in table.primary_key][:3] == ["tenant_id", "agent_id", "resource_id"]
    assert {table.name for table in metadata.sorted_tables if "tenant_id" not in table.c} == {
        "installation",
        "spending",
    }
