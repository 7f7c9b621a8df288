"""A lock that another connection holds is waited for, up to a limit; a read that takes too long is stopped."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

from ...conformance.building import draft, execute, only, say, seqs

pytestmark = pytest.mark.anyio


@pytest.fixture
async def sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteDatabase]:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.database.BUSY_DEADLINE", 0.4)
    database = await SqliteDatabase.open(str(tmp_path / "memory.db"))
    await say(database, "main", draft())
    yield database
    await database.close()


@contextmanager
def locked(path: str) -> Iterator[driver.Connection]:
    """Another connection that holds the write lock."""
    other = driver.connect(path, synchronous="OFF")
    try:
        other.execute("BEGIN IMMEDIATE")
        yield other
    finally:
        other.close()


async def test_a_write_waits_for_the_lock(sqlite: SqliteDatabase) -> None:
    with locked(sqlite.path) as other:
        waiting = asyncio.create_task(say(sqlite, "main", draft()))
        done, _ = await asyncio.wait({waiting}, timeout=0.15)
        assert not done
        other.execute("COMMIT")
        assert (await waiting).stored[0].seq == 2


async def test_a_lock_that_is_held_too_long_is_an_error_that_names_it(sqlite: SqliteDatabase) -> None:
    with locked(sqlite.path):
        with pytest.raises(StorageUnavailable, match=r"busy: another process has held its write lock for 0\.4 s; try"):
            await say(sqlite, "main", draft())
        assert await seqs(sqlite, "main") == [1]
    assert (await say(sqlite, "main", draft())).stored[0].seq == 2


async def test_a_call_that_waits_behind_another_waits_no_longer_than_it_would_alone(
    sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.database.BUSY_DEADLINE", 2.0)
    patient = await SqliteDatabase.open(sqlite.path)
    try:
        with locked(sqlite.path):
            first = asyncio.create_task(say(patient, "main", draft()))
            await asyncio.wait({first}, timeout=0.02)  # it is at work, and the next one waits behind it
            second = asyncio.create_task(say(patient, "main", draft()))
            await asyncio.wait({first})
            # Its own two seconds are nearly over. Begun anew, they would last longer than this.
            refused, _ = await asyncio.wait({second}, timeout=1.9)
            assert refused == {second}
            for call in (first, second):
                assert isinstance(call.exception(), StorageUnavailable)
        assert (await say(patient, "main", draft())).stored[0].seq == 2
    finally:
        await patient.close()


async def test_reads_do_not_wait_for_a_writer(sqlite: SqliteDatabase) -> None:
    with locked(sqlite.path) as other:
        other.execute("DELETE FROM messages")
        assert await seqs(sqlite, "main") == [1]


async def test_a_database_that_stays_locked_cannot_be_opened_for_the_first_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.database.BUSY_DEADLINE", 0.3)
    path = str(tmp_path / "new.db")
    with locked(path), pytest.raises(StorageUnavailable, match=r"new\.db"):
        await (await SqliteDatabase.open(path)).close()
    opened = await SqliteDatabase.open(path)
    await opened.close()


async def test_a_read_that_takes_too_long_is_stopped_and_its_reader_serves_again(
    sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.database.READ_SECONDS", 0.1)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(StorageUnavailable, match="could not be read: interrupted"):
        await only(sqlite, endless)
    assert [await only(sqlite, "SELECT 1") for _ in range(5)] == [1] * 5


async def test_a_rewrite_needs_the_lock_too(sqlite: SqliteDatabase) -> None:
    with locked(sqlite.path), pytest.raises(StorageUnavailable, match="could not be rewritten"):
        await sqlite.rewrite()
    assert await sqlite.rewrite()
    assert await seqs(sqlite, "main") == [1]


async def test_a_broken_index_is_among_the_problems(sqlite: SqliteDatabase) -> None:
    assert await sqlite.integrity_problems() == []
    await sqlite.write_installation(execute, "DELETE FROM search_text_content")
    assert [problem for problem in await sqlite.integrity_problems() if "index" in problem]


async def test_a_dangling_row_is_among_the_problems(sqlite: SqliteDatabase) -> None:
    await sqlite._writer_thread.hop(lambda connection: connection.execute("PRAGMA foreign_keys = OFF"))
    await sqlite.write_installation(execute, "DELETE FROM threads")
    assert [problem for problem in await sqlite.integrity_problems() if problem.startswith("foreign key")]
