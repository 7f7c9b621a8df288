"""``layerlore backup`` and ``layerlore restore --from``: the whole SQLite file, copied and put back."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from layerlore.server.settings import Settings
from layerlore.storage.backup import make_backup, put_in_place
from layerlore.storage.database import sqlite_path
from layerlore.storage.errors import InvalidInput
from layerlore.storage.migrations.runner import latest_version
from layerlore.storage.sqlite_database import MEMORY


def backup(settings: Settings, file: str) -> int:
    """Copy the memory into a new file, while servers run or not. Returns the exit code.

    Raises InvalidInput, NotFound, Conflict, StorageUnavailable or OSError.
    """
    target = Path(file).expanduser().absolute()
    make_backup(_store(settings, "use pg_dump (docs/tenants.md)"), target)
    sys.stdout.write(f"backed up to {target}: {target.stat().st_size:,} bytes\n")
    return 0


def restore_backup(settings: Settings, file: str) -> int:
    """Put a backup in the memory's place. Returns the exit code.

    Raises InvalidInput, NotFound, Conflict, StorageUnavailable, DatabaseTooNew or OSError.
    """
    store = _store(settings, "use pg_restore (docs/tenants.md)")
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    done = put_in_place(Path(file).expanduser().absolute(), store, stamp)
    behind = "" if done.version == latest_version("sqlite") else "; the next start brings it up to date"
    sys.stdout.write(f"restored {store}: version {done.version}{behind}\n")
    if done.aside is not None:
        sys.stdout.write(f"the former file is kept: {done.aside}\n")
    for damaged in done.unreadable:
        sys.stdout.write(f"damaged in the backup, and shown as such: {damaged}\n")
    sys.stdout.write("what was erased, masked or revoked since the backup is there again: do it once more\n")
    return 0


def _store(settings: Settings, on_postgres: str) -> Path:
    path = sqlite_path(settings.database.get_secret_value(), settings.database_file)
    if path is None:
        raise InvalidInput(f"this is for SQLite; for Postgres, {on_postgres}")
    if settings.memory == "off" or path == MEMORY:
        raise InvalidInput("there is no database file: memory is off, or kept in memory alone")
    return Path(path).absolute()
