"""Copies the whole database into a file, and puts such a file back."""

from pathlib import Path

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.drivers.database import sqlite_path
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.sqlite.backup import PutBack, make_backup, put_in_place
from layerlore.storage.drivers.sqlite.database import MEMORY


def back_up(url: str, default: Path, target: Path) -> None:
    """Copy the database that ``url`` names into a new file; servers may go on writing. ``default``: the file for the
    empty URL.

    Raises InvalidInput for a database that is no file, NotFound, Conflict, StorageUnavailable or OSError.
    """
    make_backup(_find_file(url, default, "pg_dump"), target)


def put_back(url: str, default: Path, backup: Path, stamp: str) -> tuple[Path, PutBack]:
    """Replace the database with a backup. Returns its file, and what was done; the former file stays, with ``stamp`` in
    its name.

    Raises what ``back_up`` raises, DatabaseTooNew or DatabaseTooOld.
    """
    store = _find_file(url, default, "pg_restore")
    return store, put_in_place(backup, store, stamp)


def is_latest(done: PutBack) -> bool:
    """Whether the file that was put back has the tables of today; else the next start updates it."""
    return done.version == latest_version("sqlite")


def _find_file(url: str, default: Path, instead: str) -> Path:
    path = sqlite_path(url, default)
    if path is None:
        raise InvalidInput(f"this command is for SQLite; for Postgres, use {instead} (docs/tenants.md)")
    if path == MEMORY:
        raise InvalidInput("there is no database file: memory is off, or the database is in memory")
    return Path(path).absolute()
