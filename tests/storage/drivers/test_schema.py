"""The migrations make what ``storage.core.tables`` says, on both databases: the same tables, columns, keys and indexes.

They also make the triggers, functions, policies and grants that the code relies on.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy.schema import CreateIndex, CreateTable

from layerlore.storage.audit import api_keys
from layerlore.storage.audit.stored_bytes import COUNTED
from layerlore.storage.core.installation import LOOKS
from layerlore.storage.core.tables import journal, metadata, search_rows, search_vectors
from layerlore.storage.drivers.postgres import backend as postgres_sql
from layerlore.storage.drivers.postgres.places import migrate_postgres
from layerlore.storage.drivers.sqlite import backend as sqlite_sql
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.file import migrate_sqlite
from layerlore.storage.index import vectors
from layerlore.storage.jobs import backlog, job_rows
from layerlore.storage.messages import place_rows
from layerlore.storage.removal import erasure, retention

pytestmark = pytest.mark.anyio

# Their looks are known once they are loaded.
LOOKING = (api_keys, backlog, erasure, retention, job_rows, place_rows, vectors)
ACTS = ("insert", "update", "delete")
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
async def both(empty_postgres_url: str) -> AsyncIterator[Callable[[], Awaitable[tuple[Catalogue, Catalogue]]]]:
    """Postgres: what was migrated, and what the metadata make, in schemas of their own."""
    connection = await asyncpg.connect(empty_postgres_url)
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


@pytest.fixture
async def migrated(postgres_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection to a Postgres with every table, as their owner."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
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
            stored = [c for c in table.c if c is not search_vectors.c.tenant_id]
            columns = {row[0]: (row[1], not row[2]) for row in ours[table.name] if row[0] in table.c and len(row) == 5}
            assert {name: kind for name, (kind, _) in columns.items()} == {
                **{c.name: str(c.type.compile(sqlite_sql.DIALECT)) for c in stored},
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
    rest = {"journal", "schema_migrations", "search_rows", "search_vectors", "last_writes", "tenant_places"}
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


def test_on_sqlite_the_triggers_are_those_that_the_code_relies_on(tmp_path: Path) -> None:
    migrated = driver.connect(str(tmp_path / "migrated.db"), synchronous="OFF")
    try:
        migrate_sqlite(migrated)
        found = dict(migrated.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    finally:
        migrated.close()
    others = {
        *("search_rows_deleted", "messages_deleted", "entries_deleted"),
        *("search_rows_counted", "search_rows_changed", "search_vectors_counted"),
        *("journal_no_update", "journal_no_delete"),
    }
    assert found.keys() == others | {f"{table}_count_{act}" for table in COUNTED for act in ACTS}
    for table, columns in COUNTED.items():
        for act in ACTS:
            counted = re.findall(r"CAST\((?:new|old)\.(\w+) AS BLOB\)", found[f"{table}_count_{act}"])
            assert set(counted) == set(columns)
        assert f"AFTER UPDATE OF {', '.join(columns)} ON {table} " in found[f"{table}_count_update"]


async def test_on_postgres_the_triggers_are_those_that_the_code_relies_on(
    migrated: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    found = await migrated.fetch(
        "SELECT relname, tgname, proname, prosrc, tgenabled::text FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid "
        "JOIN pg_proc p ON p.oid = tgfoid WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace"
    )
    others = {
        ("messages", "messages_deleted", "forget_search_rows_of_message"),
        ("entries", "entries_deleted", "forget_search_rows_of_entry"),
        ("journal", "journal_no_change", "journal_only_grows"),
        ("journal", "journal_no_truncate", "journal_only_grows"),
    }
    counting = {(table, f"{table}_count_{act}", f"layerlore_stored_{table}") for table in COUNTED for act in ACTS}
    assert {tuple(row)[:3] for row in found} == others | counting
    assert {row["tgenabled"] for row in found} == {"O"}
    for row in found:
        if row["proname"].startswith("layerlore_stored_"):
            assert set(re.findall(r"octet_length\((\w+)\)", row["prosrc"])) == set(COUNTED[row["relname"]])


async def test_on_postgres_the_functions_are_those_that_the_code_calls(
    migrated: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    found = await migrated.fetch(
        "SELECT proname, prosecdef, proconfig, has_function_privilege('pg_monitor', oid, 'EXECUTE') AS open "
        "FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
    )
    schema = await migrated.fetchval("SELECT current_schema()")
    as_owner = {row["proname"] for row in found if row["prosecdef"]}
    assert as_owner == {*LOOKS, "layerlore_postings"}
    assert {row["proname"] for row in found} - as_owner == {
        *("forget_search_rows_of_message", "forget_search_rows_of_entry", "journal_only_grows"),
        *("layerlore_add_bytes", "layerlore_fold_bytes", "layerlore_expect_tenant"),
        *(f"layerlore_stored_{table}" for table in COUNTED),
    }
    for row in found:
        if row["prosecdef"]:
            assert (row["proconfig"], row["open"]) == ([f"search_path={schema}, pg_temp"], False)


TENANT = "(tenant_id = ( SELECT NULLIF(current_setting('layerlore.tenant'::text, true), ''::text) AS \"nullif\"))"
IN_SCOPE = (
    f"({TENANT} AND ((( SELECT current_setting('layerlore.reach'::text, true) AS current_setting) = 'tenant'::text) "
    "OR ((agent_id = ( SELECT current_setting('layerlore.agent'::text, true) AS current_setting)) "
    "AND (resource_id = ( SELECT current_setting('layerlore.resource'::text, true) AS current_setting)))))"
)
BY_TOKEN = (
    f"({TENANT} AND (scope_token = ANY (( SELECT string_to_array(current_setting('layerlore.tokens'::text, true), ' '::text) "
    "AS string_to_array)::text[])))"
)
ACROSS = "(( SELECT current_setting('layerlore.across'::text, true) AS current_setting) = 'yes'::text)"


async def test_on_postgres_each_table_of_tenants_has_the_policies_that_its_columns_call_for(
    migrated: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    owner = await migrated.fetchval("SELECT current_user")
    expected = {
        ("search_rows", "bound", "ALL", "public", IN_SCOPE, None),
        ("search_vectors", "bound", "ALL", "public", BY_TOKEN, None),
        ("search_vectors", "across", "ALL", owner, ACROSS, None),
        ("journal", "bound", "INSERT", "public", None, TENANT),
    }
    for table in metadata.sorted_tables:
        if "tenant_id" in table.c and table is not journal:
            # Keys, allowances and bytes are a tenant's; an agent of a key is no scope.
            bound = IN_SCOPE if {"agent_id", "resource_id"} <= {*table.c.keys()} else TENANT
            expected.add((table.name, "bound", "ALL", "public", bound, None))
            expected.add((table.name, "across", "ALL", owner, ACROSS, None))
    found = await migrated.fetch(
        "SELECT tablename, policyname, cmd, roles[1]::text, qual, with_check FROM pg_policies "
        "WHERE schemaname = current_schema()"
    )
    assert {tuple(row) for row in found} == expected


async def test_on_postgres_the_servers_role_may_do_what_it_needs_and_no_more(serving_url: str) -> None:
    connection = await asyncpg.connect(serving_url)
    try:
        found = await connection.fetch(
            "SELECT table_name, privilege_type FROM information_schema.role_table_grants "
            "WHERE grantee = current_user AND table_schema = current_schema()"
        )
        may_call = await connection.fetch(
            "SELECT proname FROM pg_proc WHERE prosecdef AND pronamespace = current_schema()::regnamespace "
            "AND has_function_privilege(oid, 'EXECUTE')"
        )
    finally:
        await connection.close()
    rights: dict[str, set[str]] = {}
    for name, right in found:
        rights.setdefault(name, set()).add(right)
    assert rights.pop("schema_migrations") == {"SELECT"}
    assert rights.pop("tenant_places") == {"SELECT"}
    assert rights.pop("journal") == {"INSERT"}
    tables = {*metadata.tables, "search_rows", "search_vectors", "last_writes"} - {"journal"}
    assert rights.keys() == tables
    assert all(found == {"SELECT", "INSERT", "UPDATE", "DELETE"} for found in rights.values())
    assert {row["proname"] for row in may_call} == {*LOOKS, "layerlore_postings"}
