"""Postgres behind the real PgBouncer, mostly in transaction mode, where it is installed."""

import asyncio
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.drivers.dialect import open_database
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.engine_trial import SILENT, try_engine
from layerlore.storage.drivers.postgres.roles import role_of
from layerlore.storage.drivers.postgres.transaction import POOLED

from ...conformance.building import draft, say
from ..postgres_load import check, write_until

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
OFF = "?statement_cache_size=0"
POOL = 3

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(PGBOUNCER is None or os.name != "posix", reason="pgbouncer is not installed"),
]


def version() -> tuple[int, int]:
    assert PGBOUNCER is not None
    told = subprocess.run([PGBOUNCER, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)", told)
    assert found
    return int(found[1]), int(found[2])


class Pooled:
    """A database: past the pooler, and through it."""

    def __init__(self, direct: str, pooler: str) -> None:
        self.direct, self.pooler = direct, pooler


@pytest.fixture(scope="module")
def pooled(postgres_admin_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooled]:
    """A database of its own, and a PgBouncer with three connections to it."""
    with pooling(postgres_admin_url, tmp_path_factory.mktemp("pgbouncer"), "transaction") as found:
        yield found


@contextlib.contextmanager
def pooling(admin_url: str, folder: Path, mode: str) -> Iterator[Pooled]:
    name = f"pooled_{uuid.uuid4().hex[:8]}"
    asyncio.run(_make(admin_url, name))
    parts = urlsplit(admin_url)
    host = parts.hostname or parse_qs(parts.query)["host"][0]
    port = parts.port or 5432
    with socket.create_server(("127.0.0.1", 0)) as free:
        own_port = free.getsockname()[1]
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)
    (folder / "users.txt").write_text(f'"{name}" "{name}"\n')
    more = "max_prepared_statements = 100\n" if version() >= (1, 21) else ""
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n{name} = host={host} port={port} dbname={name} user={name} password={name}\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {own_port}\nunix_socket_dir =\n"
        f"auth_type = plain\nauth_file = {folder}/users.txt\n"
        f"pool_mode = {mode}\ndefault_pool_size = {POOL}\nmax_client_conn = 100\n{more}"
    )
    command = [str(PGBOUNCER), *(["-u", _account(host)] if os.geteuid() == 0 else []), str(folder / "pgbouncer.ini")]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait_until_it_listens(process, own_port, folder / "log")
            query = f"?{parts.query}" if parts.query else ""
            netloc = parts.netloc.rpartition("@")[2]
            yield Pooled(
                f"postgresql://{name}:{name}@{netloc}/{name}{query}",
                f"postgresql://{name}:{name}@127.0.0.1:{own_port}/{name}",
            )
        finally:
            process.kill()
    asyncio.run(_remove(admin_url, name))


def _account(host: str) -> str:
    """Who may reach the server's socket: it refuses to run as root."""
    return Path(host).owner() if host.startswith("/") and Path(host).owner() != "root" else "nobody"


def _wait_until_it_listens(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    raise AssertionError(log.read_text())


async def _make(admin_url: str, name: str) -> None:
    admin = await asyncpg.connect(admin_url)
    await admin.execute(f"CREATE ROLE {name} LOGIN NOSUPERUSER PASSWORD '{name}'")
    await admin.execute(f"CREATE DATABASE {name} OWNER {name}")
    await admin.close()


async def _remove(admin_url: str, name: str) -> None:
    admin = await asyncpg.connect(admin_url)
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.execute(f"DROP ROLE {name}")
    await admin.close()


@pytest.fixture
async def empty(pooled: Pooled) -> AsyncIterator[Pooled]:
    """Without tables, whatever a test made."""
    yield pooled
    owner = await asyncpg.connect(pooled.direct)
    await owner.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await owner.close()


async def state_of(pooled: Pooled, query: str) -> list[Any]:
    """The answer of every connection that the pooler has to the server: transactions at a time take one each."""
    clients = [await asyncpg.connect(pooled.pooler, statement_cache_size=0) for _ in range(POOL)]
    try:
        for client in clients:
            await client.execute("BEGIN")
        assert len({await client.fetchval("SELECT pg_backend_pid()") for client in clients}) == POOL
        found = [await client.fetchval(query) for client in clients]
        for client in clients:
            await client.execute("ROLLBACK")
        return found
    finally:
        for client in clients:
            await client.close()


async def test_writers_through_a_pooler_lose_nothing_and_leave_nothing_behind(empty: Pooled) -> None:
    databases = [await PostgresDatabase.open(empty.pooler + OFF) for _ in range(2)]
    stop = asyncio.Event()
    writing = asyncio.create_task(write_until(databases[0], stop))
    for _ in range(10):
        await say(databases[1], "another", *(draft() for _ in range(5)))
    stop.set()
    await check(databases[0], await writing)
    assert await databases[1].health.ask() == ""
    for database in databases:
        await database.close()
    assert await state_of(empty, "SELECT count(*) FROM pg_prepared_statements") == [0] * POOL
    assert await state_of(empty, "SELECT count(*) FROM pg_listening_channels()") == [0] * POOL
    assert set(await state_of(empty, "SHOW synchronous_commit")) == {"on"}
    assert set(await state_of(empty, "SELECT current_setting('layerlore.tenant', true)")) <= {None, ""}


async def test_servers_that_read_by_cursors_share_a_pooler(empty: Pooled) -> None:
    await (await PostgresDatabase.open(empty.direct)).close()
    command = [sys.executable, "-m", "tests.storage.cursor_reader", empty.pooler + OFF, "150"]
    servers = [
        await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        for _ in range(3)
    ]
    printed = [await server.communicate() for server in servers]
    assert printed == [(b"", b"")] * len(servers)


async def test_the_roles_of_a_pooled_url_are_found(empty: Pooled) -> None:
    standing, owner = await role_of(empty.pooler + OFF)
    assert (standing.role, owner) == (urlsplit(empty.direct).username, "")


async def test_a_pooler_that_does_not_follow_statements_is_named_with_the_option_that_helps(empty: Pooled) -> None:
    database = await PostgresDatabase.open(empty.pooler)
    try:
        calls = (say(database, f"t{n % 7}", draft()) for n in range(60))
        answers = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        await database.close()
    wrong = [str(answer) for answer in answers if isinstance(answer, BaseException)]
    if version() >= (1, 21):
        assert wrong == []
    else:
        assert set(wrong) == {POOLED}


async def test_a_start_says_what_a_pooler_by_transaction_does_not_carry(empty: Pooled) -> None:
    if version() >= (1, 21):
        assert await try_engine(empty.pooler) == SILENT
    else:
        with pytest.raises(StorageUnavailable, match=re.escape(POOLED)):
            await try_engine(empty.pooler)
    assert await try_engine(empty.pooler + OFF, listen_url=empty.pooler) == SILENT
    assert await try_engine(empty.pooler + OFF, listen_url=empty.direct) == ""
    assert await try_engine(empty.pooler + OFF) == ""


def test_a_pooler_by_statement_is_refused(postgres_admin_url: str, tmp_path: Path) -> None:
    refused = pytest.raises(StorageUnavailable, match="lacks transactions")
    with pooling(postgres_admin_url, tmp_path, "statement") as found, refused:
        asyncio.run(open_database(found.pooler + OFF, tmp_path))


async def test_the_listener_goes_past_the_pooler_by_a_url_of_its_own(empty: Pooled) -> None:
    writing = await PostgresDatabase.open(empty.pooler + OFF)
    listening = await PostgresDatabase.open(empty.pooler + OFF, listen_url=empty.direct)
    heard = asyncio.Event()
    connected = asyncio.Event()

    def told(_: Any) -> None:
        (heard if connected.is_set() else connected).set()

    try:
        with listening.hints(told):
            async with asyncio.timeout(20):
                await _until_listening(empty)
                connected.set()
                heard.clear()
                await say(writing, "main", draft())
                await heard.wait()
    finally:
        await writing.close()
        await listening.close()


async def _until_listening(pooled: Pooled) -> None:
    onlooker = await asyncpg.connect(pooled.direct)
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'layerlore hints' AND query LIKE 'LISTEN%'"
    while not await onlooker.fetchval(query):
        pass
    await onlooker.close()
