"""Which functions of Postgres read the keys of all tenants."""

import asyncpg
import pytest

from layerlore.storage.drivers.postgres.database import PostgresDatabase

pytestmark = pytest.mark.anyio


async def test_on_postgres_keys_of_all_tenants_are_read_through_functions_of_the_owner_that_not_everybody_may_call(
    postgres_url: str,
) -> None:
    await (await PostgresDatabase.open(postgres_url)).close()
    connection = await asyncpg.connect(postgres_url)
    try:
        functions = await connection.fetch(
            "SELECT proname, prosecdef, proconfig, has_function_privilege('pg_monitor', oid, 'EXECUTE') FROM pg_proc "
            "WHERE proname LIKE 'layerlore_api_key%' AND pronamespace = current_schema()::regnamespace ORDER BY 1"
        )
        schema = await connection.fetchval("SELECT current_schema()")
    finally:
        await connection.close()
    assert [tuple(row) for row in functions] == [
        (name, True, [f"search_path={schema}, pg_temp"], False) for name in ("layerlore_api_key", "layerlore_api_keys")
    ]
