"""A Postgres from which one ability is taken: a start names it, and makes no table."""

import logging
from pathlib import Path

import asyncpg
import pytest

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.drivers.dialect import look_at_database, open_database
from layerlore.storage.drivers.postgres.engine_trial import SILENT, try_engine

pytestmark = pytest.mark.anyio


async def run(url: str, *statements: str) -> list[str]:
    """The tables of the schema, after the statements."""
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
        tables = "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
        return [row[0] for row in await connection.fetch(tables)]
    finally:
        await connection.close()


def own_functions_first(url: str) -> str:
    """The URL under which a function of the test's schema stands before Postgres' own."""
    address, _, schema = url.rpartition("search_path=")
    return f"{address}search_path={schema}%2Cpg_catalog"


async def test_postgres_lacks_nothing_and_keeps_nothing_of_the_trial(empty_postgres_url: str, tmp_path: Path) -> None:
    assert await try_engine(empty_postgres_url) == ""
    assert await run(empty_postgres_url) == []
    await (await open_database(empty_postgres_url, tmp_path)).close()
    assert await try_engine(empty_postgres_url) == ""
    state = await look_at_database(empty_postgres_url, tmp_path, whole=True)
    assert (state.failure, state.weakness) == ("", "")


LACKING = {
    "advisory locks: two connections got the same one": (
        "CREATE FUNCTION pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
    ),
    "bit_count of bit strings, as Postgres has it from version 14 on: not here": (
        "CREATE FUNCTION bit_count(bit) RETURNS bigint LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'not here' USING ERRCODE = 'feature_not_supported'; END $$"
    ),
    "LISTEN and NOTIFY: not here": (
        "CREATE FUNCTION pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'not here' USING ERRCODE = 'feature_not_supported'; END $$"
    ),
}


@pytest.mark.parametrize("name", LACKING)
async def test_an_engine_that_lacks_something_is_refused_by_its_name(
    empty_postgres_url: str, tmp_path: Path, name: str
) -> None:
    await run(empty_postgres_url, LACKING[name])
    url = own_functions_first(empty_postgres_url)
    with pytest.raises(StorageUnavailable) as refused:
        await open_database(url, tmp_path)
    assert f"lacks {name}" in str(refused.value)
    assert await run(empty_postgres_url) == []
    state = await look_at_database(url, tmp_path, whole=True)
    assert state.failure == str(refused.value)


async def test_row_level_security_that_was_switched_off_is_noticed_at_the_next_start(
    postgres_url: str, tmp_path: Path
) -> None:
    await run(postgres_url, "ALTER TABLE job_turns DISABLE ROW LEVEL SECURITY")
    with pytest.raises(StorageUnavailable, match="lacks row-level security"):
        await open_database(postgres_url, tmp_path)
    await run(postgres_url, "ALTER TABLE job_turns ENABLE ROW LEVEL SECURITY")
    await (await open_database(postgres_url, tmp_path)).close()


async def test_notifications_that_do_not_arrive_are_only_warned_of(
    empty_postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await run(
        empty_postgres_url, "CREATE FUNCTION pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT NULL::void'"
    )
    url = own_functions_first(empty_postgres_url)
    with caplog.at_level(logging.WARNING, "layerlore"):
        await (await open_database(url, tmp_path)).close()
    assert SILENT in caplog.messages
    state = await look_at_database(url, tmp_path, whole=True)
    assert (state.failure, state.weakness) == ("", SILENT)


async def test_a_superuser_that_no_policy_holds_is_not_taken_for_an_engine_without_policies(
    postgres_admin_url: str,
) -> None:
    assert await try_engine(postgres_admin_url) == ""
