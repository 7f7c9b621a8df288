"""A store that was made under the product's former name opens, and nothing in it keeps that name."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from layerlore.storage.drivers.database import open_database
from layerlore.storage.drivers.migrations import runner
from layerlore.storage.drivers.postgres.migration import migrate_postgres
from layerlore.storage.drivers.postgres.roles import grant
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.migration import migrate_sqlite
from layerlore.storage.threads import threads

from .building import ANA, NOW, draft, having, only, say


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Here the tables are made by the tests."""
    return f"sqlite:///{tmp_path / 'memory.db'}"


@pytest.fixture
def postgres_url(empty_postgres_url: str) -> str:
    """Here the tables are made by the tests."""
    return empty_postgres_url


pytestmark = pytest.mark.anyio

LAST_OF_THE_FORMER_NAME = 10
KEY = (
    "INSERT INTO api_keys (key_id, digest, tenant_id, rights, created_at) "
    f"VALUES ('abcdefgh', 'digest', 'acme', '[\"read\"]', {NOW})"
)
# What a server of the former name bound its transactions with.
BOUND = "SELECT set_config('memstrata.across', 'yes', false), set_config('memstrata.tenant', 'acme', false)"
NAMES = """
SELECT proname || prosrc FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION ALL SELECT concat(qual, with_check) FROM pg_policies WHERE schemaname = current_schema()
UNION ALL SELECT dictname FROM pg_ts_dict WHERE dictnamespace = current_schema()::regnamespace
"""
GRANTED = """
SELECT count(*) FROM pg_proc
WHERE pronamespace = current_schema()::regnamespace AND prosecdef AND has_function_privilege($1, oid, 'EXECUTE')
"""


async def make_former_store(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database as the last version under the former name left it, with a key in it."""
    known = {dialect: runner.migrations(dialect) for dialect in ("sqlite", "postgres")}

    def earlier(dialect: str) -> tuple[runner.Migration, ...]:
        return known[dialect][:LAST_OF_THE_FORMER_NAME]

    with monkeypatch.context() as then:
        then.setattr(runner, "migrations", earlier)
        if url.startswith("sqlite"):
            connection = driver.connect(url.removeprefix("sqlite://"), synchronous="OFF")
            connection.execute("PRAGMA journal_mode = WAL")
            migrate_sqlite(connection)
            connection.execute(KEY)
            connection.close()
            return
        server = await asyncpg.connect(url)
        await migrate_postgres(server)
        await server.execute(BOUND)
        await server.execute(KEY)
        await server.close()


async def test_a_store_of_the_former_name_opens_and_serves(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_former_store(database_url, monkeypatch)
    database = await open_database(database_url, Path())
    try:
        await say(database, "main", draft("the walrus"))
        assert len(await having(database, "walrus")) == 1
        assert (await database.read(threads.find, ANA, "main")).message_count == 1
    finally:
        await database.close()


async def test_keys_of_the_former_name_are_revoked(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_former_store(database_url, monkeypatch)
    database = await open_database(database_url, Path())
    try:
        assert await only(database, "SELECT revoked_at FROM api_keys") > NOW
    finally:
        await database.close()


@pytest.fixture
async def server_role(postgres_admin_url: str, postgres_url: str) -> AsyncIterator[str]:
    """A role that a server of the former name connected as."""
    role = f"served_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(postgres_admin_url, database=urlsplit(postgres_url).path.removeprefix("/"))
    await admin.execute(f"CREATE ROLE {role} NOSUPERUSER")
    yield role
    await admin.execute(f"DROP OWNED BY {role}")
    await admin.execute(f"DROP ROLE {role}")
    await admin.close()


async def test_nothing_in_a_postgres_keeps_the_former_name_and_who_could_serve_still_can(
    postgres_url: str, server_role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_former_store(postgres_url, monkeypatch)
    owner = await asyncpg.connect(postgres_url)
    try:
        assert [name for (name,) in await owner.fetch(NAMES) if "memstrata" in name]
        await grant(owner, server_role)
        granted = await owner.fetchval(GRANTED, server_role)
        await (await open_database(postgres_url, Path())).close()
        names = [name for (name,) in await owner.fetch(NAMES)]
        assert len(names) > 50
        assert not [name for name in names if "memstrata" in name]
        assert await owner.fetchval(GRANTED, server_role) == granted > 10
    finally:
        await owner.close()
