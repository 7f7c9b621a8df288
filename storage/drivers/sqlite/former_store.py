"""Takes over a SQLite store from the folder that the product had under its former name."""

from pathlib import Path

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.file import refuse_what_is_no_file

_FIRST_STEP = "messages_and_threads"
_WAIT_MS = 5_000


def move_store(old: Path, new: Path) -> bool:
    """Move the SQLite file ``old`` to ``new``, with what its write-ahead log still holds.

    Nothing is moved, and False returned, if ``old`` is another program's, or ``new`` is there already.

    Raises:
        StorageUnavailable: a running server has the file open, or it cannot be read or moved.
    """
    refuse_what_is_no_file(old)
    try:
        connection = driver.connect(str(old), synchronous="FULL")
        try:
            return _is_ours(connection) and _moved(connection, old, new)
        finally:
            connection.close()
    except driver.OperationalError as error:
        raise StorageUnavailable(
            f"{old} is to be moved to {new}, and is in use: end the servers that use it"
        ) from error
    except driver.DatabaseError:
        return False
    except OSError as error:
        raise StorageUnavailable(f"{old} cannot be moved to {new}: {error.strerror}; move it yourself") from error


def _is_ours(connection: driver.Connection) -> bool:
    """Another program of the former name keeps its files in the same folder."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'").fetchone():
        return False
    columns = [row[1] for row in connection.execute("PRAGMA table_info(schema_migrations)")]
    if columns[:2] != ["version", "name"]:
        return False
    first = connection.execute("SELECT name FROM schema_migrations WHERE version = 1").fetchone()
    return first is not None and first[0] == _FIRST_STEP


def _moved(connection: driver.Connection, old: Path, new: Path) -> bool:
    connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
    # Leaving WAL needs that nobody else has the file open, and leaves one file that holds everything.
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("BEGIN EXCLUSIVE")
    if new.exists() or not old.exists():
        return False
    new.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    old.rename(new)
    return True
