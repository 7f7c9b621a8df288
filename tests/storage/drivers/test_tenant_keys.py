"""Every key and index of a Postgres leads with the tenant, except the few that are named here, each with its reason."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from layerlore.storage.core.tables import metadata, search_rows, search_vectors

pytestmark = pytest.mark.anyio

OF_THE_INSTALLATION = {
    "api_keys": "a key is found by its digest, before its tenant is known",
    "installation": "settings and secrets of the whole installation",
    "last_writes": "a connection's newest write, whatever tenant it is of",
    "schema_migrations": "the steps that made the tables",
    "spending": "what the background work of all tenants cost on a day",
}
WALKS_ALL_TENANTS = {
    "jobs_due_of_kind": "a worker takes the soonest job of a kind, of whatever tenant",
    "jobs_held": "a worker looks for leases that have ended",
    "deletions_by_time": "retention looks for what is to be erased by now",
    "entries_dropped": "retention looks for what is to be erased by now",
    "idempotency_by_time": "retention looks for what is to be erased by now",
    "session_memories_cleared": "retention looks for what is to be erased by now",
    "user_profiles_cleared": "retention looks for what is to be erased by now",
    "runs_by_expiry": "retention looks for what is to be erased by now",
    "journal_in_order": "an operator reads the newest lines of all tenants",
    "search_rows_in_order": "vectors are made for the rows of all tenants in the order in which they were stored",
    "search_rows_stale": "rows that older rules made are made anew for all tenants",
}
LEADS_WITH_THE_SCOPE = {
    "search_rows_lexemes": "each query begins with the token of its scope, a lexeme of every row; a tenant before the"
    " lexemes would need the extension btree_gin",
}


@pytest.fixture
async def migrated(postgres_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


async def indexes(connection: "asyncpg.Connection[asyncpg.Record]") -> list[tuple[str, str, bool, list[str]]]:
    """Table, name, whether it is unique, and the columns that it is ordered by, of each index."""
    found = await connection.fetch(
        "SELECT t.relname, i.relname, x.indisunique, array(SELECT pg_get_indexdef(x.indexrelid, n, false)"
        " FROM generate_series(1, x.indnkeyatts) AS n ORDER BY n) FROM pg_index x"
        " JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid"
        " WHERE t.relnamespace = current_schema()::regnamespace AND t.relkind = 'r'"
    )
    return [(table, name, unique, list(columns)) for table, name, unique, columns in found]


async def test_every_key_and_index_leads_with_the_tenant_or_has_a_reason(
    migrated: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    found = await indexes(migrated)
    others = {
        name: unique
        for table, name, unique, columns in found
        if columns[0] != "tenant_id" and table not in OF_THE_INSTALLATION
    }
    assert others.keys() == WALKS_ALL_TENANTS.keys() | LEADS_WITH_THE_SCOPE.keys()
    assert not any(others.values()), "a unique index without the tenant holds across all of them"


async def test_every_table_has_a_key(migrated: "asyncpg.Connection[asyncpg.Record]") -> None:
    names = await migrated.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    tables = {name for (name,) in names}
    assert tables == {table for table, _, unique, _ in await indexes(migrated) if unique}
    assert OF_THE_INSTALLATION.keys() < tables
    of_tenants = {
        *metadata.tables,
        search_rows.name,
        search_vectors.name,
        "journal",
        "tenant_places",
    } - OF_THE_INSTALLATION.keys()
    assert tables == of_tenants | OF_THE_INSTALLATION.keys()


async def test_every_foreign_key_leads_with_the_tenant_on_both_sides(
    migrated: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    found: list[Any] = await migrated.fetch(
        "SELECT conname, (SELECT attname FROM pg_attribute WHERE attrelid = conrelid AND attnum = conkey[1]),"
        " (SELECT attname FROM pg_attribute WHERE attrelid = confrelid AND attnum = confkey[1])"
        " FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace"
    )
    assert len(found) > 10
    assert {(row[1], row[2]) for row in found} == {("tenant_id", "tenant_id")}, found
