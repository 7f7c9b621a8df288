"""Checks and backups of a database."""

from pathlib import Path

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.drivers.database import dialect_of
from layerlore.storage.drivers.dialect import DatabaseState
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.sqlite.backup import PutBack, make_backup, put_in_place
from layerlore.storage.drivers.sqlite.dialect import DIALECT as SQLITE
from layerlore.storage.drivers.sqlite.dialect import MEMORY, path_of


async def look_at_database(url: str, default: Path, *, whole: bool = False) -> DatabaseState:
    """The state of the database that ``url`` names; ``default``: the file for the empty URL. It takes about ten seconds
    at most, unless the ``whole`` file is checked. Raises InvalidInput for a URL of an unknown form."""
    return await dialect_of(url).look(url, default, whole=whole)


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
    dialect = dialect_of(url)
    if dialect.has_roles:
        raise InvalidInput(f"this command is for SQLite; for Postgres, use {instead} (docs/tenants.md)")
    if dialect is not SQLITE:
        raise InvalidInput("this command is for SQLite; use the means of the database that the URL names")
    path = path_of(url, default)
    if path == MEMORY:
        raise InvalidInput("there is no database file: memory is off, or the database is in memory")
    return Path(path).absolute()
