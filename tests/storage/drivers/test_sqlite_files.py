"""The SQLite file: who may read it, and what is in force on every connection to it."""

import os
import stat
from pathlib import Path

import pytest

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.database import MEMORY, OwnThread, SqliteDatabase

from ...conformance.building import draft, having, say, seqs

pytestmark = pytest.mark.anyio


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_the_file_and_its_log_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        database = await SqliteDatabase.open(str(tmp_path / "new" / "folder" / "memory.db"))
        try:
            await say(database, "main", draft())
            folder = tmp_path / "new" / "folder"
            assert mode(folder) == 0o700
            files = {file.name: mode(file) for file in folder.iterdir()}
            assert files == {"memory.db": 0o600, "memory.db-wal": 0o600, "memory.db-shm": 0o600}
        finally:
            await database.close()
    finally:
        os.umask(before)
    assert [file.name for file in folder.iterdir()] == ["memory.db"]


async def test_an_existing_file_and_folder_keep_their_modes(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o750)
    path = folder / "memory.db"
    path.touch(mode=0o640)
    database = await SqliteDatabase.open(str(path))
    await database.close()
    assert (mode(folder), mode(path)) == (0o750, 0o640)


async def test_what_was_stored_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    for n in range(1, 4):
        database = await SqliteDatabase.open(path)
        await say(database, "main", draft("walrus", id=f"m{n}"))
        assert await seqs(database, "main") == list(range(1, n + 1))
        assert len(await having(database, "walrus")) == n
        assert await database.integrity_problems() == []
        await database.close()


async def pragmas(thread: OwnThread) -> dict[str, object]:
    names = (
        *("foreign_keys", "synchronous", "journal_mode", "secure_delete", "trusted_schema", "query_only"),
        *("busy_timeout", "temp_store"),
    )
    return {
        name: await thread.hop(lambda connection, name: connection.execute(f"PRAGMA {name}").fetchone()[0], name)
        for name in names
    }


@pytest.mark.parametrize(("given", "level"), [("FULL", 2), ("NORMAL", 1)])
async def test_pragmas_are_in_force_on_every_connection(tmp_path: Path, given: str, level: int) -> None:
    database = await SqliteDatabase.open(str(tmp_path / "memory.db"), synchronous=given, readers=3)
    try:
        expected = {
            "foreign_keys": 1,
            "synchronous": level,
            "journal_mode": "wal",
            "secure_delete": 1,
            "trusted_schema": 0,
            "query_only": 0,
            "busy_timeout": driver.BUSY_TIMEOUT_MS,
            "temp_store": 2,
        }
        assert await pragmas(database._writer_thread) == expected
        assert len(database._readers) == 3
        for reader in database._readers:
            assert await pragmas(reader) == {**expected, "query_only": 1}
        await database.rewrite()
        assert await pragmas(database._writer_thread) == expected
    finally:
        await database.close()


async def test_full_is_the_default(tmp_path: Path) -> None:
    database = await SqliteDatabase.open(str(tmp_path / "memory.db"))
    assert (await pragmas(database._writer_thread))["synchronous"] == 2
    await database.close()


async def test_deleted_words_leave_the_index_at_once(tmp_path: Path) -> None:
    database = await SqliteDatabase.open(str(tmp_path / "memory.db"))
    sql = "SELECT v FROM search_text_config WHERE k = 'secure-delete'"
    setting = await database._writer_thread.hop(lambda connection: connection.execute(sql).fetchone())
    assert setting == (1,)
    await database.close()


async def test_a_database_in_memory_keeps_nothing_and_does_all_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        database = await SqliteDatabase.open(MEMORY)
        assert (await say(database, "main", draft("walrus"))).stored[0].seq == 1
        assert len(await having(database, "walrus")) == 1
        await database.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["no database", "a folder", "below a file", "cut short"])
async def test_what_cannot_be_opened_is_an_error_that_names_the_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "memory.db"
    if kind == "no database":
        path.write_bytes(b"this is a letter, no database\n" * 200)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "below a file":
        path.touch()
        path = path / "memory.db"
    else:
        database = await SqliteDatabase.open(str(path))
        await say(database, "main", *(draft("x" * 5_000) for _ in range(20)))
        await database.close()
        path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(StorageUnavailable, match=r"memory\.db"):
        await (await SqliteDatabase.open(str(path))).close()
