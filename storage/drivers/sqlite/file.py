"""The SQLite file: its tables brought up to date, and whether its path still leads to what is open.

A file that is deleted, moved or replaced stays what its open connections read and write, while no other process will
ever see it: what is written there is lost when they close. The same is true of its write-ahead log.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import TextClause

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.drivers.migrations.runner import LEDGER, TAKEN, latest_version, pending, reached_version
from layerlore.storage.drivers.sqlite import driver

_Identity = tuple[int, int]
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_REFUSED = "nothing is written until then, since it would be lost"
_GONE = (
    f"the database file is no longer in its place (deleted, or moved): put it back, or restart the server; {_REFUSED}"
)
_REPLACED = (
    "another file has taken the place of the database file: put the former one back, or stop the server, move the new one "
    f"elsewhere and put it in place with `layerlore restore --from FILE` (the former one's log would damage it); {_REFUSED}"
)
_LOG_GONE = (
    "the database's write-ahead log (its files -wal and -shm) was deleted, moved or replaced under the running server: "
    f"restart the server; {_REFUSED}"
)


class Displaced(StorageUnavailable):
    """The file that the connections hold open is not the one at their path. The text names no path."""


def refuse_what_is_no_file(path: Path) -> None:
    """Raises StorageUnavailable for a folder, a pipe (which would be waited for without end), a device or a socket."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except OSError:
        # SQLite itself says why the file cannot be opened.
        return
    if kind != stat.S_IFREG:
        raise StorageUnavailable(
            f"{path} is {_KINDS.get(kind, 'no file')}: the database needs a file of its own, or a name where none is yet"
        )


class DatabaseFile:
    """Made before the first connection is opened, so that no other file can come between."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = _identity(path)
        self._log: dict[str, _Identity | None] = {}

    def find_log(self) -> None:
        """Know the log from now on, which lies beside what a link leads to. For when a connection has it open."""
        real = os.path.realpath(self._path)
        self._log = {name: _identity(name) for name in (f"{real}-wal", f"{real}-shm")}

    def check(self) -> None:
        """Check the three paths, which takes some microseconds. Raises Displaced."""
        found = _identity(self._path)
        if found != self._identity:
            raise Displaced(_GONE if found is None else _REPLACED)
        for name, identity in self._log.items():
            # A log that was absent at first may come at any time.
            if identity is not None and _identity(name) != identity:
                raise Displaced(_LOG_GONE)

    @property
    def log_can_be_saved(self) -> bool:
        """Whether only the log was removed, so that its content can still be put into the file."""
        return _identity(self._path) == self._identity and all(
            _identity(name) in (None, identity) for name, identity in self._log.items()
        )

    def no_room(self) -> bool:
        """Whether the disk has no room for the next megabyte."""
        try:
            disk = os.statvfs(Path(self._path).parent)
        except (OSError, AttributeError):  # Windows has no statvfs
            return False
        # Root may fill the blocks that the file system reserves.
        if os.geteuid() == 0:
            free = disk.f_bfree
        else:
            free = disk.f_bavail
        return disk.f_blocks > 0 and free * disk.f_frsize < 1024 * 1024


def _identity(path: str) -> _Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - six for each write, and a Path costs as much again
    except OSError:
        return None
    return found.st_dev, found.st_ino


async def read_once(tx: Tx, statement: TextClause) -> Row | None:
    """The first row of a statement without parameters; the same again where the transaction keeps what it has read."""
    known: dict[TextClause, Row | None] | None = getattr(tx, "known", None)
    if known is None:
        return await tx.one(statement)
    if statement not in known:
        known[statement] = await tx.one(statement)
    return known[statement]


def migrate_sqlite(connection: driver.Connection) -> int:
    """Apply what is missing, in the connection's thread. Returns the version reached.

    Raises DatabaseTooNew, DatabaseTooOld, or SQLite's busy error when another process holds the lock.
    """
    if sqlite_version(connection) == latest_version("sqlite"):
        return latest_version("sqlite")
    # A table is changed by making it anew: with foreign keys, dropping the old one would take along what refers to it.
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        return _migrate_sqlite(connection)
    finally:
        connection.execute("PRAGMA foreign_keys = ON")


def _migrate_sqlite(connection: driver.Connection) -> int:
    # Processes that start together wait here, and then find nothing pending.
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(LEDGER)
        for step in pending("sqlite", sqlite_version(connection)):
            for statement in _statements(step.sql):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO schema_migrations VALUES (?, ?, unixepoch() * 1000)", (step.version, step.name)
            )
        # An existing key stays: marks and fingerprints that are stored were made with it.
        connection.execute("INSERT OR IGNORE INTO installation VALUES ('hmac_key', ?)", (secrets.token_hex(32),))
        # Deleted words then leave the index's pages at once. Before SQLite 3.42 they go when segments merge.
        if driver.VERSION >= driver.SECURE_DELETE_FTS_VERSION:
            connection.execute("INSERT INTO search_text(search_text, rank) VALUES ('secure-delete', 1)")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return latest_version("sqlite")


def sqlite_version(connection: driver.Connection) -> int:
    """The schema version of a file; 0: it has no tables of ours. Raises DatabaseTooOld."""
    exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'").fetchone()
    if not exists:
        return 0
    return reached_version("sqlite", connection.execute(TAKEN).fetchall())


def _statements(script: str) -> Iterator[str]:
    """The statements of a script; a trigger's body may hold semicolons."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if driver.driver.complete_statement(pending):
            yield pending
            pending = ""
    assert not pending.strip(), f"unfinished statement: {pending}"
