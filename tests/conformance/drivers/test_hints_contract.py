"""Whoever listens is told that something was committed, wherever that was."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.dialect import open_database
from layerlore.storage.threads import threads

from ..building import ANA, draft, say
from ..listening import PATIENCE, Ear

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.database.POLL_SECONDS", 0.005)
    monkeypatch.setattr("layerlore.storage.drivers.postgres.hints.BATCH_SECONDS", 0.005)


@pytest.fixture
async def other(database: Database, database_url: str) -> AsyncIterator[Database]:
    """The same database, opened once more, as another process does."""
    opened = await open_database(database_url, Path())
    yield opened
    await opened.close()


async def test_who_begins_to_listen_is_told_to_look_once(database: Database) -> None:
    ear = Ear()
    with database.hints(ear):
        assert (await ear.next())(ANA)


async def test_a_commit_of_its_own_is_told_before_the_write_returns_to_its_caller(database: Database) -> None:
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        for _ in range(50):
            ear.forget()
            await say(database, "main", draft())
            assert any(concerns(ANA) for concerns in ear.hints)


async def test_every_commit_of_another_connection_is_told(database: Database, other: Database) -> None:
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        await say(other, "main", draft())  # its first write may have to connect
        await ear.next()
        for _ in range(50):
            await asyncio.sleep(0.006)  # longer than what is batched
            ear.forget()
            await say(other, "main", draft())
            assert (await ear.next())(ANA)


async def test_the_last_commit_of_a_process_that_ends_at_once_is_told(database: Database, database_url: str) -> None:
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        await say(database, "main", draft())
        await asyncio.sleep(0.1)
        ear.forget()
        brief = await open_database(database_url, Path())
        await say(brief, "main", draft())
        await brief.close()
        assert (await ear.next())(ANA)


async def test_who_has_stopped_listening_is_told_no_more(database: Database, other: Database) -> None:
    gone, there = Ear(), Ear()
    with database.hints(there):
        with database.hints(gone):
            await gone.next()
        gone.forget()
        there.forget()
        await say(other, "main", draft())
        await there.next()
        await say(database, "main", draft())
    assert gone.hints == []


async def test_a_write_whose_caller_was_cancelled_is_told_once_it_is_committed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.database.POLL_SECONDS", PATIENCE)
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        await say(database, "main", draft())
        await asyncio.sleep(0.1)
        ear.forget()
        write = asyncio.create_task(say(database, "main", draft()))
        for _ in range(3):  # it is in the hands of the database now
            await asyncio.sleep(0)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        await ear.next()
        assert (await database.read(threads.find, ANA, "main")).message_count == 2


async def test_reads_are_told_to_nobody(database: Database) -> None:
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        await say(database, "main", draft())
        await asyncio.sleep(0.1)
        ear.forget()
        await database.read(threads.find, ANA, "main")
        with pytest.raises(NotFound):
            await database.read(threads.find, ANA, "none")
        await asyncio.sleep(0.05)
    assert ear.hints == []


async def test_closing_is_quick_while_somebody_listens(database: Database, database_url: str) -> None:
    opened = await open_database(database_url, Path())
    with opened.hints(Ear()):
        async with asyncio.timeout(PATIENCE):
            await opened.close()


async def test_the_version_is_the_same_until_anybody_commits(database: Database, other: Database) -> None:
    seen = [await database.version()]
    if seen == [None]:
        pytest.skip("a version of this database would cost as much as reading")
    for writing in (database, other, database):
        await database.read(threads.count_live, ANA)
        assert await database.version() == seen[-1]
        await say(writing, "main", draft())
        assert await database.version() not in seen
        seen.append(await database.version())
    with pytest.raises(NotFound):
        await database.write(threads.lock, ANA, "none")
    assert await database.version() == seen[-1]
