"""SQLite's group commit: who shares a transaction, and what happens when it is lost or cannot be committed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import StoreFunctionSuspended, Tx
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.messages import message_rows

from ...conformance.building import ANA, NOW, draft, execute, only, say, search_text, uid

pytestmark = pytest.mark.anyio

Function = Callable[[Tx, Scope], Awaitable[int]]


class Refused(Exception):
    pass


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = await SqliteDatabase.open(str(tmp_path / "memory.db"))
    yield database
    await database.close()


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group takes all that wait, however slow the machine is."""
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.group_commit.GROUP_SECONDS", 60.0)


@pytest.fixture
async def statements(sqlite: SqliteDatabase) -> list[str]:
    """Every statement that the writer's connection runs from now on."""
    seen: list[str] = []
    await sqlite._writer_thread.hop(lambda connection: connection.set_trace_callback(seen.append))
    return seen


def appending(name: str) -> Function:
    async def append(tx: Tx, scope: Scope) -> int:
        done = await message_rows.append(
            tx, ANA, name, [draft()], new_uid=uid(), replace_known=False, now=NOW, search_text=search_text
        )
        return done.stored[0].seq

    return append


async def at_once(sqlite: SqliteDatabase, *functions: Function) -> list[int | BaseException]:
    return await asyncio.gather(*(sqlite.write(function, ANA) for function in functions), return_exceptions=True)


async def names(sqlite: SqliteDatabase) -> str:
    return str(await only(sqlite, "SELECT group_concat(thread_id, ' ' ORDER BY thread_id) FROM threads"))


@pytest.mark.usefixtures("unhurried")
async def test_writes_that_wait_at_the_same_time_share_a_transaction(
    sqlite: SqliteDatabase, statements: list[str]
) -> None:
    assert await at_once(sqlite, *(appending("main") for _ in range(50))) == list(range(1, 51))
    assert statements.count("COMMIT") == statements.count("BEGIN IMMEDIATE") == 1


async def test_a_group_takes_no_more_members_once_it_has_run_for_5_ms(
    sqlite: SqliteDatabase, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.group_commit.GROUP_SECONDS", 0.0)
    assert await at_once(sqlite, *(appending("main") for _ in range(10))) == list(range(1, 11))
    assert statements.count("COMMIT") == 10


@pytest.mark.usefixtures("unhurried")
async def test_no_more_than_64_share_a_transaction(sqlite: SqliteDatabase, statements: list[str]) -> None:
    assert await at_once(sqlite, *(appending("main") for _ in range(150))) == list(range(1, 151))
    assert statements.count("COMMIT") == 3


async def test_those_that_found_no_room_in_a_group_come_before_those_that_came_later(
    sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 wait at once: more than one group takes, of which each time the first alone has the time to run."""
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.group_commit.GROUP_SECONDS", 0.0)
    assert await at_once(sqlite, *(appending("main") for _ in range(100))) == list(range(1, 101))


async def test_nobody_is_answered_before_the_commit(sqlite: SqliteDatabase) -> None:
    """The committed messages are there for a connection that shares nothing with the writer."""
    for n in range(1, 20):
        await say(sqlite, "main", draft())
        assert await only(sqlite, "SELECT count(*) FROM messages") == n


@pytest.mark.parametrize("what", ["a turn of the event loop", "a future"])
async def test_a_function_that_awaits_something_else_is_rolled_back(sqlite: SqliteDatabase, what: str) -> None:
    never = asyncio.get_running_loop().create_future()

    async def wander(tx: Tx, scope: Scope) -> int:
        await appending("wandered")(tx, scope)
        await (never if what == "a future" else asyncio.sleep(0))
        return await appending("wandered")(tx, scope)

    before, error, after = await at_once(sqlite, appending("a"), wander, appending("b"))
    assert (before, after) == (1, 1)
    assert isinstance(error, StoreFunctionSuspended)
    assert "awaited something other than its transaction" in str(error)
    assert await names(sqlite) == "a b"


async def test_a_read_that_awaits_something_else_is_an_error_too(sqlite: SqliteDatabase) -> None:
    async def wander(tx: Tx, scope: Scope) -> None:
        await asyncio.sleep(0)

    with pytest.raises(StoreFunctionSuspended, match="awaited something other than its transaction"):
        await sqlite.read(wander, ANA)
    assert await only(sqlite, "SELECT 1") == 1


async def lose(tx: Tx, scope: Scope) -> int:
    """End the transaction under everybody, as SQLite itself does on some errors, and fail."""
    await appending("lost")(tx, scope)
    await execute(tx, "ROLLBACK")
    raise Refused("gone")


@pytest.mark.usefixtures("unhurried")
async def test_when_the_transaction_is_lost_the_others_run_again_and_commit(
    sqlite: SqliteDatabase, statements: list[str]
) -> None:
    first, lost, second = await at_once(sqlite, appending("a"), lose, appending("b"))
    assert (first, second) == (1, 1)
    assert isinstance(lost, StorageUnavailable)
    assert "the database could not write: gone" in str(lost)
    assert await names(sqlite) == "a b"
    assert await only(sqlite, "SELECT count(*) FROM messages") == 2
    assert statements.count("COMMIT") == 2
    assert await sqlite.integrity_problems() == []


async def test_a_lost_transaction_alone_is_an_error_and_the_next_write_works(sqlite: SqliteDatabase) -> None:
    with pytest.raises(StorageUnavailable, match="could not write"):
        await sqlite.write(lose, ANA)
    assert await sqlite.write(appending("a"), ANA) == 1


async def test_a_full_disk_fails_only_who_needs_the_room(sqlite: SqliteDatabase) -> None:
    async def large(tx: Tx, scope: Scope) -> int:
        much = [draft("x" * 100_000) for _ in range(20)]
        await message_rows.append(
            tx, ANA, "large", much, new_uid=uid(), replace_known=False, now=NOW, search_text=search_text
        )
        return 0

    await sqlite.write(appending("a"), ANA)
    pages = await only(sqlite, "PRAGMA page_count")
    await sqlite._writer_thread.hop(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages + 60}"))
    first, full, second = await at_once(sqlite, appending("b"), large, appending("c"))
    assert (first, second) == (1, 1)
    assert isinstance(full, StorageUnavailable)
    assert "full" in str(full)
    assert await names(sqlite) == "a b c"
    assert await sqlite.integrity_problems() == []


@pytest.mark.usefixtures("unhurried")
async def test_a_commit_that_fails_fails_all_and_leaves_nothing(sqlite: SqliteDatabase) -> None:
    async def dangle(tx: Tx, scope: Scope) -> int:
        await execute(tx, "PRAGMA defer_foreign_keys = ON")
        return await execute(
            tx, "INSERT INTO deletions VALUES ('local', 'agent', 'ana', 'd', 'no such thread', 'thread', 0, 0)"
        )

    await sqlite.write(appending("before"), ANA)
    answers = await at_once(sqlite, appending("a"), dangle, appending("b"))
    for answer in answers:
        assert isinstance(answer, StorageUnavailable)
        assert "the database could not commit: FOREIGN KEY constraint failed" in str(answer)
    assert await names(sqlite) == "before"
    assert await at_once(sqlite, appending("a"), appending("b")) == [1, 1]
    assert await sqlite.integrity_problems() == []


async def test_a_cancelled_caller_takes_nobody_along(sqlite: SqliteDatabase) -> None:
    units = [asyncio.create_task(sqlite.write(appending(f"t{n}"), ANA)) for n in range(10)]
    await asyncio.sleep(0)
    for unit in units[::2]:
        unit.cancel()
    answers = await asyncio.gather(*units, return_exceptions=True)
    assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [True, False] * 5
    assert answers[1::2] == [1] * 5


async def test_closing_waits_for_what_was_submitted(tmp_path: Path) -> None:
    database = await SqliteDatabase.open(str(tmp_path / "other.db"))
    units = [asyncio.create_task(database.write(appending(f"t{n}"), ANA)) for n in range(100)]
    await asyncio.sleep(0)
    await database.close()
    assert await asyncio.gather(*units) == [1] * 100
