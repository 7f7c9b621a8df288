"""A database file that is deleted, moved or replaced under a running server: no write is acknowledged that is lost."""

import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.drivers.sqlite.backup import make_backup, put_in_place
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

from ...conformance.building import draft, say, seqs

pytestmark = pytest.mark.anyio

NAME = "memory.db"


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    (tmp_path / "data").mkdir()
    database = await SqliteDatabase.open(str(tmp_path / "data" / NAME))
    yield database
    await database.close()


def _replace(path: Path) -> None:
    """As a deployment does: a new file, and then a rename over the old one."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def _move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.skipif(os.name != "posix", reason="there an open file cannot be deleted")
@pytest.mark.parametrize(
    ("displace", "told"),
    [
        (Path.unlink, "no longer in its place"),
        (_replace, "another file has taken the place"),
        (_move_folder, "no longer in its place"),
        (lambda path: path.with_name(f"{NAME}-wal").unlink(), "write-ahead log"),
        (lambda path: path.with_name(f"{NAME}-shm").unlink(), "write-ahead log"),
        (lambda path: _replace(path.with_name(f"{NAME}-wal")), "write-ahead log"),
    ],
    ids=["deleted", "replaced", "folder-moved", "log-deleted", "index-deleted", "log-replaced"],
)
async def test_writes_are_refused_while_the_file_is_displaced_and_the_log_says_so_once(
    sqlite: SqliteDatabase, displace: Callable[[Path], None], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    await say(sqlite, "main", draft(id="first"))
    displace(Path(sqlite.path))
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match=told):
            await say(sqlite, "main", draft(id="lost"))
    assert told in await sqlite.health.ask()
    assert await seqs(sqlite, "main") == [1]
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [told in record.getMessage() and sqlite.path in record.getMessage() for record in said] == [True]


async def test_the_place_is_looked_at_although_nobody_writes(sqlite: SqliteDatabase) -> None:
    assert await sqlite.health.ask() == ""
    sqlite.health._last_well = 0.0
    assert await sqlite.health.ask() == ""
    sqlite.health._last_well = 0.0
    Path(sqlite.path).rename(f"{sqlite.path}.away")
    assert "no longer in its place" in await sqlite.health.ask()


async def test_what_the_deleted_log_held_is_in_the_file(sqlite: SqliteDatabase, tmp_path: Path) -> None:
    for n in range(20):
        await say(sqlite, "main", draft(id=f"m{n}"))
    Path(f"{sqlite.path}-wal").unlink()
    with pytest.raises(StorageUnavailable, match="restart the server"):
        await say(sqlite, "main", draft(id="lost"))
    # As after a kill: what is in the file alone.
    shutil.copy(sqlite.path, tmp_path / "copy.db")
    again = await SqliteDatabase.open(str(tmp_path / "copy.db"))
    assert await seqs(again, "main") == list(range(1, 21))
    await again.close()


@pytest.mark.skipif(os.name != "posix", reason="there an open file cannot be replaced")
async def test_a_backup_that_took_the_files_place_is_used_as_the_error_says(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    store = Path(sqlite.path)
    await say(sqlite, "main", draft(id="first"))
    make_backup(store, tmp_path / "backup.db")
    await say(sqlite, "main", *(draft("x" * 3_000) for _ in range(20)))
    shutil.copy(tmp_path / "backup.db", tmp_path / "copy.db")
    (tmp_path / "copy.db").replace(store)
    with pytest.raises(StorageUnavailable, match="layerlore restore --from FILE"):
        await say(sqlite, "main", draft(id="refused"))
    await sqlite.close()
    assert store.with_name(f"{store.name}-wal").stat().st_size > 0
    store.replace(tmp_path / "elsewhere.db")
    put_in_place(tmp_path / "elsewhere.db", store, "20261122T190000Z")
    again = await SqliteDatabase.open(str(store))
    assert await seqs(again, "main") == [1]
    assert await again.integrity_problems() == []
    await again.close()


async def test_the_former_file_put_back_is_written_again_and_nothing_is_missing(
    sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("layerlore.storage.core.health.AGAIN_SECONDS", 0.01)
    await say(sqlite, "main", draft(id="first"))
    away = Path(sqlite.path).rename(f"{sqlite.path}.away")
    Path(sqlite.path).write_bytes(b"")  # what another program, or a second server, would make in its place
    with pytest.raises(StorageUnavailable, match="another file"):
        await say(sqlite, "main", draft(id="refused"))
    away.replace(sqlite.path)
    assert sqlite.health._trying is not None
    await sqlite.health._trying
    assert (await say(sqlite, "main", draft(id="second"))).stored[0].seq == 2
    assert await sqlite.integrity_problems() == []
    assert await sqlite.health.ask() == ""
    assert [record.levelname for record in caplog.records if "memory can" in record.getMessage()] == [
        "ERROR",
        "WARNING",
    ]


@pytest.mark.skipif(os.name != "posix", reason="there are no such files")
@pytest.mark.parametrize("kind", ["pipe", "device", "link to a pipe"])
async def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / NAME
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path = Path("/dev/null")
        case _:
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to(tmp_path / "pipe")
    with pytest.raises(StorageUnavailable, match="the database needs a file of its own"):
        await SqliteDatabase.open(str(path))
