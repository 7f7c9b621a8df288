"""``layerlore backup`` and ``layerlore restore --from``: copy the whole SQLite file, and put a copy back."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from layerlore.server.relay.asking import end_idle
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.drivers.database import sqlite_path
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.sqlite.backup import make_backup, put_in_place
from layerlore.storage.drivers.sqlite.database import MEMORY


def backup(settings: Settings, file: str) -> int:
    """Copy the memory into a new file, even while servers run. Returns the exit code.

    Raises InvalidInput, NotFound, Conflict, StorageUnavailable or OSError.
    """
    target = Path(file).expanduser().absolute()
    make_backup(_store(settings, "use pg_dump (docs/tenants.md)"), target)
    sys.stdout.write(f"backed up to {target}: {target.stat().st_size:,} bytes\n")
    return 0


def restore_backup(settings: Settings, file: str) -> int:
    """Replace the memory with a backup. Returns the exit code.

    Raises InvalidInput, NotFound, Conflict, StorageUnavailable, DatabaseTooNew, DatabaseTooOld or OSError.
    """
    store = _store(settings, "use pg_restore (docs/tenants.md)")
    end_idle(str(settings.data_dir))
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    done = put_in_place(Path(file).expanduser().absolute(), store, stamp)
    behind = "" if done.version == latest_version("sqlite") else "; the next start updates it"
    sys.stdout.write(f"restored {store}: version {done.version}{behind}\n")
    if done.aside is not None:
        sys.stdout.write(f"the former file was kept: {done.aside}\n")
    for damaged in done.unreadable:
        sys.stdout.write(f"damaged in the backup: {damaged}\n")
    sys.stdout.write("whatever was erased, masked or revoked after the backup is back: repeat it\n")
    return 0


def _store(settings: Settings, on_postgres: str) -> Path:
    path = sqlite_path(settings.database.get_secret_value(), settings.database_file)
    if path is None:
        raise InvalidInput(f"this command is for SQLite; for Postgres, {on_postgres}")
    if settings.memory == "off" or path == MEMORY:
        raise InvalidInput("there is no database file: memory is off, or the database is in memory")
    return Path(path).absolute()
