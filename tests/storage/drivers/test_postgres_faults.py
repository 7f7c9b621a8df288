"""Connections to Postgres that are lost at any moment: every acknowledged write is there once, and none twice."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import asyncpg
import pytest

from layerlore.storage.audit import stored_bytes
from layerlore.storage.core.errors import StorageBusy, StorageUnavailable
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.postgres import database as postgres_database
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.transaction import Patience, PostgresTx, beginning
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads

from ...conformance.building import ANA, BEN, draft, only, say, uid
from ..postgres_load import append_and_count, check, write_until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    database = await PostgresDatabase.open(postgres_url)
    yield database
    await database.close()


@pytest.fixture
async def onlooker(postgres_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection of its own, under another name, as the same role."""
    connection = await asyncpg.connect(postgres_url, server_settings={"application_name": "onlooker"})
    yield connection
    await connection.close()


# The second number is how long to wait, in milliseconds, until the process is gone.
TERMINATE = """
    SELECT pg_terminate_backend(pid, $2) FROM (
        SELECT pid FROM pg_stat_activity WHERE application_name = 'layerlore' AND usename = current_user
        ORDER BY random() LIMIT $1
    ) AS chosen
"""


async def test_terminated_connections_under_load_lose_nothing_and_do_nothing_twice(
    postgres: PostgresDatabase, onlooker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    stop = asyncio.Event()
    writing = asyncio.create_task(write_until(postgres, stop))
    terminated = 0
    for _ in range(20):
        done, _ = await asyncio.wait({writing}, timeout=0.08)
        if done:
            break
        terminated += len(await onlooker.fetch(TERMINATE, 4, 0))
    stop.set()
    acknowledged = await writing
    assert terminated >= 20
    await check(postgres, acknowledged)


async def test_a_read_whose_connection_is_terminated_is_run_again(
    postgres: PostgresDatabase, onlooker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await say(postgres, "main", draft())
    runs = 0

    async def look(tx: Tx, scope: Scope) -> int:
        nonlocal runs
        runs += 1
        before = len((await message_pages.page(tx, ANA, "main", roles=["user"], limit=9)).messages)
        if runs == 1:
            await onlooker.fetch(TERMINATE, 100, 10_000)
        return before + len((await message_pages.page(tx, ANA, "main", roles=["user"], limit=9)).messages)

    assert await postgres.read(look, ANA) == 2
    assert runs == 2


@pytest.mark.parametrize("reached", [True, False], ids=["commit-reached-the-server", "commit-was-lost"])
async def test_a_commit_without_an_answer_is_asked_about_and_not_repeated(
    postgres: PostgresDatabase,
    onlooker: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
    reached: bool,
) -> None:
    runs, commits = 0, 0
    commit = postgres_database._commit

    async def interrupted(connection: Any, mark: str) -> None:
        nonlocal commits
        commits += 1
        if commits > 1:
            await commit(connection, mark)
            return
        if reached:
            await commit(connection, mark)
        await onlooker.fetch(TERMINATE, 100, 10_000)
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    async def append(tx: Tx, scope: Scope) -> str:
        nonlocal runs
        runs += 1
        return await append_and_count(tx, scope, "main", "a", "uid")

    monkeypatch.setattr(postgres_database, "_commit", interrupted)
    assert await postgres.write(append, ANA) == "added"
    assert runs == (1 if reached else 2)
    await check(postgres, {"main": ["a"]})


async def test_a_deadlock_is_run_again(postgres: PostgresDatabase) -> None:
    await say(postgres, "a", draft())
    await say(postgres, "b", draft())
    both_hold_one = asyncio.Barrier(2)
    runs = 0

    async def hold(tx: Tx, scope: Scope, /, first: str, second: str) -> None:
        nonlocal runs
        runs += 1
        await threads.lock(tx, ANA, first)
        if runs <= 2:
            await both_hold_one.wait()
        await threads.lock(tx, ANA, second)

    await asyncio.gather(postgres.write(hold, ANA, "a", "b"), postgres.write(hold, ANA, "b", "a"))
    assert runs == 3


async def test_far_from_their_quota_the_writers_of_a_tenant_do_not_wait_for_each_other(
    postgres: PostgresDatabase,
) -> None:
    both_have_counted = asyncio.Barrier(2)

    async def store(tx: Tx, scope: Scope) -> None:
        append = functools.partial(append_and_count, tx, scope, "main", "a", uid())
        await stored_bytes.within(tx, scope, stored_bytes.Quota(10**10, 10**10), append)
        # Neither is committed before the other has come to the count.
        await both_have_counted.wait()

    async with asyncio.timeout(30):
        await asyncio.gather(postgres.write(store, ANA), postgres.write(store, BEN))


async def test_a_server_that_stays_away_is_an_error_within_the_deadline(
    postgres: PostgresDatabase,
    onlooker: "asyncpg.Connection[asyncpg.Record]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.postgres.database.RETRY_DEADLINE", 0.5)

    async def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    with monkeypatch.context() as patched:
        patched.setattr("asyncpg.connect_utils._connect_addr", refuse)
        await onlooker.fetch(TERMINATE, 100, 10_000)
        for call in (say(postgres, "main", draft()), only(postgres, "SELECT 1")):
            with pytest.raises(StorageUnavailable, match=r"Postgres could not be reached for 0\.5 s .*; try again"):
                await asyncio.wait_for(call, 10)
    assert (await say(postgres, "main", draft())).stored[0].seq == 1


async def test_a_server_that_is_stopped_in_a_transaction_holds_up_no_other(
    postgres_url: str, onlooker: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    database = await PostgresDatabase.open(postgres_url, patience=Patience(idle_seconds=0.3))
    await say(database, "main", draft())
    stopped = await asyncpg.connect(postgres_url, server_settings={"application_name": "stopped"})
    # It began as a server does, holds the thread, and says nothing more.
    await stopped.execute(beginning("READ WRITE", ANA, Patience(idle_seconds=0.3)))
    await threads.lock(PostgresTx(cast("Any", stopped)), ANA, "main")
    try:
        async with asyncio.timeout(10):
            assert (await say(database, "main", draft())).stored[0].seq == 2
        assert (
            stopped.is_closed()
            or await onlooker.fetchval("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stopped'") == 0
        )
    finally:
        await database.close()
        stopped.terminate()


async def test_a_lock_that_does_not_come_free_is_an_error_that_says_when_to_try_again(
    postgres_url: str, onlooker: "asyncpg.Connection[asyncpg.Record]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.postgres.database.RETRY_DEADLINE", 0.5)
    database = await PostgresDatabase.open(postgres_url, patience=Patience(lock_seconds=0.2))
    async with onlooker.transaction():
        await onlooker.execute("LOCK TABLE messages IN SHARE MODE")
        with pytest.raises(StorageBusy, match=r"a lock in Postgres did not come free; try again in 1 s") as refused:
            await say(database, "main", draft())
        assert refused.value.retry_after == 1
        # Not this server's fault alone: no other could write either.
        monkeypatch.setattr("layerlore.storage.core.health.FRESH_SECONDS", 0.0)
        assert "is locked in Postgres" in await database.health.ask()
        assert database.health.is_away
    assert (await say(database, "main", draft())).stored[0].seq == 1
    await database.close()


async def test_a_pool_whose_connections_are_all_in_use_is_busy_and_not_away(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.postgres.database.RETRY_DEADLINE", 0.5)
    monkeypatch.setattr("layerlore.storage.drivers.postgres.database._LOOK_SECONDS", 0.1)
    monkeypatch.setattr("layerlore.storage.core.health.FRESH_SECONDS", 0.0)
    database = await PostgresDatabase.open(postgres_url, pool_size=2)
    free, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def hold(tx: Tx, scope: Scope) -> None:
        begun.release()
        await free.wait()

    holding = [asyncio.create_task(database.read(hold, ANA)) for _ in range(2)]
    for _ in holding:
        await begun.acquire()
    with pytest.raises(StorageBusy, match=r"all 2 connections to Postgres were in use for 0\.5 s; try again in 1 s"):
        await say(database, "main", draft())
    assert await database.health.ask() == ""
    free.set()
    await asyncio.gather(*holding)
    assert (await say(database, "main", draft())).stored[0].seq == 1
    await database.close()


class LatePool:
    """A pool whose connections come too late for the caller, since ``others`` are served."""

    def __init__(self, pool: Any, others: Callable[[], Awaitable[object]]) -> None:
        self._pool = pool
        self._others = others
        self._is_late = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    async def acquire(self, timeout: float) -> Any:
        if not self._is_late:
            return await self._pool.acquire(timeout=timeout)
        self._is_late = False
        await self._others()
        self._is_late = True
        raise TimeoutError


async def test_a_call_that_waited_while_others_were_served_is_told_that_the_pool_is_busy(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.postgres.database.RETRY_DEADLINE", 0.5)
    database = await PostgresDatabase.open(postgres_url, pool_size=2)
    # By the time that the caller gives up, a connection has come free, so the pool is not full.
    monkeypatch.setattr(database, "_pool", LatePool(database._pool, functools.partial(only, database, "SELECT 1")))
    with pytest.raises(StorageBusy, match=r"all 2 connections to Postgres were in use for 0\.5 s; try again in 1 s"):
        await say(database, "main", draft())
    monkeypatch.undo()
    await database.close()


async def test_a_statement_that_takes_too_long_is_named_as_such(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.postgres.database.RETRY_DEADLINE", 0.5)
    monkeypatch.setattr("layerlore.storage.drivers.postgres.database.STATEMENT_SECONDS", 0.5)
    database = await PostgresDatabase.open(postgres_url)
    with pytest.raises(StorageBusy, match=r"Postgres needed more than 0\.5 s for a statement of this call"):
        await only(database, "SELECT pg_sleep(30)")
    assert await database.health.ask() == ""
    await database.close()


async def test_commits_are_synchronous_and_clocks_are_utc(postgres: PostgresDatabase) -> None:
    assert await only(postgres, "SHOW synchronous_commit") == "on"
    assert await only(postgres, "SHOW timezone") == "UTC"
    assert await only(postgres, "SHOW transaction_isolation") == "repeatable read"
