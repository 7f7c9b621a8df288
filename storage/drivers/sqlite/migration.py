"""Brings the tables of a SQLite file up to date."""

import secrets
from collections.abc import Iterator

from layerlore.storage.drivers.migrations.runner import LEDGER, TAKEN, latest_version, pending, reached_version
from layerlore.storage.drivers.sqlite import driver


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
        _make_fts_deletes_secure(connection)
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


def _make_fts_deletes_secure(connection: driver.Connection) -> None:
    """Deleted words leave the index's pages at once (SQLite 3.42; before it they go when segments merge)."""
    if driver.VERSION >= driver.SECURE_DELETE_FTS_VERSION:
        connection.execute("INSERT INTO search_text(search_text, rank) VALUES ('secure-delete', 1)")
