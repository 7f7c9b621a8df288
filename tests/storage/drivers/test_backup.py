"""A backup of the SQLite file, and what may go wrong when it is put back."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from layerlore.storage.core.errors import Conflict, DatabaseTooNew, LayerloreError, NotFound, StorageUnavailable
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.sqlite.backup import RestoredBackup, make_backup, put_in_place
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.drivers.sqlite.driver import connect

from ...conformance.building import draft, say, seqs

pytestmark = pytest.mark.anyio

STAMP = "20261122T190000Z"


async def kept(path: Path) -> list[int]:
    database = await SqliteDatabase.open(str(path))
    try:
        assert await database.integrity_problems() == []
        return await seqs(database, "main")
    finally:
        await database.close()


async def filled(path: Path, messages: int) -> Path:
    database = await SqliteDatabase.open(str(path))
    await say(database, "main", *(draft() for _ in range(messages)))
    await database.close()
    return path


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """Of three messages."""
    return await filled(tmp_path / "data" / "memory.db", 3)


def restored(backup: Path, store: Path) -> RestoredBackup:
    done = put_in_place(backup, store, STAMP)
    left = sorted(file.name for file in store.parent.iterdir())
    assert not [name for name in left if "restoring" in name]
    assert not [name for name in left if name.startswith("memory.db-")]
    return done


async def test_a_backup_of_a_running_store_is_one_file_with_everything_that_was_acknowledged(
    store: Path, tmp_path: Path
) -> None:
    database = await SqliteDatabase.open(str(store))
    await say(database, "main", draft())
    backup = tmp_path / "backup.db"
    make_backup(store, backup)
    await say(database, "main", draft())
    await database.close()
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("backup.db-*"))
    assert await kept(backup) == [1, 2, 3, 4]
    assert await kept(store) == [1, 2, 3, 4, 5]
    with pytest.raises(Conflict, match="there already"):
        make_backup(store, backup)
    with pytest.raises(NotFound, match="nothing to back up"):
        make_backup(tmp_path / "none.db", tmp_path / "other.db")
    assert not (tmp_path / "other.db").exists()


async def test_a_backup_takes_the_place_of_the_store_which_is_kept(store: Path, tmp_path: Path) -> None:
    make_backup(store, tmp_path / "backup.db")
    before = (tmp_path / "backup.db").read_bytes()
    store.chmod(0o640)
    await filled(store, 2)
    done = restored(tmp_path / "backup.db", store)
    assert done == RestoredBackup(latest_version("sqlite"), store.with_name(f"memory.db.before-{STAMP}"), ())
    assert stat.S_IMODE(store.stat().st_mode) == 0o640
    assert await kept(store) == [1, 2, 3]
    assert await kept(done.aside or tmp_path) == [1, 2, 3, 4, 5]
    assert (tmp_path / "backup.db").read_bytes() == before
    assert restored(tmp_path / "backup.db", store).aside == store.with_name(f"memory.db.before-{STAMP}-2")


async def test_a_stale_log_beside_the_store_is_taken_away(store: Path, tmp_path: Path) -> None:
    """As a killed server leaves it, and a copy of the file alone did not survive it."""
    make_backup(store, tmp_path / "backup.db")
    running = await SqliteDatabase.open(str(store))
    await say(running, "main", *(draft("x" * 4_000) for _ in range(30)))
    left = {file.name: file.read_bytes() for file in store.parent.iterdir()}
    await running.close()
    for name, content in left.items():
        (store.parent / name).write_bytes(content)
    assert f"{store.name}-wal" in left
    done = restored(tmp_path / "backup.db", store)
    assert await kept(store) == [1, 2, 3]
    assert len(await kept(done.aside or tmp_path)) == 33


async def test_a_damaged_store_is_kept_with_its_log_and_replaced(store: Path, tmp_path: Path) -> None:
    make_backup(store, tmp_path / "backup.db")
    store.write_bytes(b"no database" * 1000)
    store.with_name("memory.db-wal").write_bytes(b"no log")
    done = restored(tmp_path / "backup.db", store)
    assert done.aside is not None
    assert done.aside.read_bytes() == b"no database" * 1000
    assert await kept(store) == [1, 2, 3]


async def test_where_no_store_is_there_is_one_afterwards(store: Path, tmp_path: Path) -> None:
    done = restored(store, tmp_path / "new" / "memory.db")
    assert done.aside is None
    assert await kept(tmp_path / "new" / "memory.db") == [1, 2, 3]


async def test_a_copy_of_a_running_servers_files_is_taken_with_its_log(store: Path, tmp_path: Path) -> None:
    running = await SqliteDatabase.open(str(store))
    await say(running, "main", draft())
    for ending in ("", "-wal"):
        shutil.copy(f"{store}{ending}", tmp_path / f"copy.db{ending}")
    await running.close()
    restored(tmp_path / "copy.db", store)
    assert await kept(store) == [1, 2, 3, 4]


def _cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _make_newer(path: Path) -> None:
    connection = connect(str(path), synchronous="FULL")
    connection.execute("INSERT INTO schema_migrations VALUES (9999, 'later', 0)")
    connection.close()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _foreign(path: Path) -> None:
    path.unlink()
    connection = connect(str(path), synchronous="FULL")
    connection.execute("CREATE TABLE threads (x)")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "error", "told"),
    [
        (_cut, Conflict, "nothing was changed"),
        (lambda path: path.write_bytes(b"walrus " * 2000), Conflict, "is no backup"),
        (_make_newer, DatabaseTooNew, "9999"),
        (_empty, Conflict, "no memory of layerlore"),
        (_foreign, Conflict, "no memory of layerlore"),
        (lambda path: path.with_name("backup.db-wal").write_bytes(b"x"), None, ""),
        (Path.unlink, NotFound, "there is no file"),
        (lambda path: (path.unlink(), os.mkfifo(path)), StorageUnavailable, "a named pipe"),
    ],
    ids=["cut", "no-database", "newer", "empty", "foreign", "stale-log-beside", "missing", "pipe"],
)
async def test_what_is_no_sound_backup_changes_nothing(
    store: Path, tmp_path: Path, spoil: object, error: type[LayerloreError] | None, told: str
) -> None:
    backup = tmp_path / "backup.db"
    make_backup(store, backup)
    await filled(store, 1)
    spoil(backup)  # type: ignore[operator]
    if error is None:
        restored(backup, store)
        assert await kept(store) == [1, 2, 3]
        return
    before = store.read_bytes()
    with pytest.raises(error, match=told) as raised:
        put_in_place(backup, store, STAMP)
    assert "walrus" not in str(raised.value)
    assert {file.name: file.read_bytes() for file in store.parent.iterdir()} == {store.name: before}


HOLD = """
import sys
from layerlore.storage.drivers.sqlite import driver
connection = driver.connect(sys.argv[1], synchronous="FULL")
driver.use_write_ahead_log(connection)
connection.execute("SELECT count(*) FROM messages").fetchall()
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="the locks are of other kinds there")
@pytest.mark.parametrize("damaged", [False, True])
async def test_while_somebody_has_the_store_open_it_is_refused(store: Path, tmp_path: Path, damaged: bool) -> None:
    make_backup(store, tmp_path / "backup.db")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        if damaged:
            with store.open("r+b") as file:
                file.write(b"no database at all")
        before = store.read_bytes()
        with pytest.raises(StorageUnavailable, match="a running server has"):
            put_in_place(tmp_path / "backup.db", store, STAMP)
        assert store.read_bytes() == before
        process.communicate("")
    restored(tmp_path / "backup.db", store)
    assert await kept(store) == [1, 2, 3]
