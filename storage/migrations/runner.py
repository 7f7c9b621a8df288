"""Brings a database's tables up to date: ``NNNN_what_changed.sqlite.sql`` and ``NNNN_what_changed.postgres.sql``.

All steps that a database lacks run in one transaction under a lock, so a kill at any statement leaves it as it was,
and processes that start together wait for the first. A database from a newer version is refused.
"""

import hashlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from layerlore.storage import sqlite_driver
from layerlore.storage.errors import DatabaseTooNew
from layerlore.storage.statements import Dialect

_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.(sqlite|postgres)\.sql")
_LOCK = 0x6C617965726C6F  # "layerlo": the advisory lock of our migrations on a Postgres database

MIGRATION_SECONDS = 86_400.0
"""How long a step may take on Postgres, and others wait for it: in a large database it rewrites whole tables."""

_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at BIGINT NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str


@cache
def migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """All steps for one database, in order."""
    found = [
        (match, entry.read_text(encoding="utf-8"))
        for entry in files("layerlore.storage.migrations").iterdir()
        if (match := _FILE.fullmatch(entry.name)) and match[3] == dialect
    ]
    return tuple(sorted((Migration(int(m[1]), m[2], sql) for m, sql in found), key=lambda step: step.version))


def latest_version(dialect: Dialect) -> int:
    return migrations(dialect)[-1].version


def _pending(dialect: Dialect, version: int) -> list[Migration]:
    known = latest_version(dialect)
    if version > known:
        raise DatabaseTooNew(
            f"this database is at schema version {version}, and this layerlore knows versions up to {known}: "
            "a newer layerlore wrote it. Upgrade layerlore, or point it at another database"
        )
    return [step for step in migrations(dialect) if step.version > version]


def migrate_sqlite(connection: sqlite_driver.Connection) -> int:
    """Apply what is missing, in the connection's thread. Returns the version reached.

    Raises DatabaseTooNew, or SQLite's busy error when another process holds the lock.
    """
    if sqlite_version(connection) == latest_version("sqlite"):
        return latest_version("sqlite")
    # A table is changed by making it anew: with foreign keys, dropping the old one would take along what refers to it.
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        return _migrate_sqlite(connection)
    finally:
        connection.execute("PRAGMA foreign_keys = ON")


def _migrate_sqlite(connection: sqlite_driver.Connection) -> int:
    # Steps hash keys with it; Postgres has a function of its own.
    connection.create_function("sha256_hex", 1, _sha256_hex, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_LEDGER)
        for step in _pending("sqlite", sqlite_version(connection)):
            for statement in _statements(step.sql):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO schema_migrations VALUES (?, ?, unixepoch() * 1000)", (step.version, step.name)
            )
        connection.execute("INSERT OR IGNORE INTO installation VALUES ('hmac_key', ?)", (secrets.token_hex(32),))
        _make_fts_deletes_secure(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return latest_version("sqlite")


def _sha256_hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sqlite_version(connection: sqlite_driver.Connection) -> int:
    """The schema version of a file; 0: it has no tables of ours."""
    exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'").fetchone()
    if not exists:
        return 0
    version: int = connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()[0]
    return version


def _statements(script: str) -> Iterator[str]:
    """The statements of a script; a trigger's body may hold semicolons."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite_driver.driver.complete_statement(pending):
            yield pending
            pending = ""
    assert not pending.strip(), f"unfinished statement: {pending}"


def _make_fts_deletes_secure(connection: sqlite_driver.Connection) -> None:
    """Deleted words leave the index's pages at once (SQLite 3.42; before it they go when segments merge)."""
    if sqlite_driver.VERSION >= sqlite_driver.SECURE_DELETE_FTS_VERSION:
        connection.execute("INSERT INTO search_text(search_text, rank) VALUES ('secure-delete', 1)")


# Functions that run as the owner find their tables in this schema, and nothing that a caller has put before them; and
# nobody may call them who was not granted it.
_SEAL = """
DO $do$
DECLARE found regprocedure;
BEGIN
    FOR found IN
        SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prosecdef
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', found, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', found);
    END LOOP;
END
$do$
"""


async def migrate_postgres(connection: Any) -> int:
    """Apply what is missing on an asyncpg connection. Returns the version reached. Raises DatabaseTooNew."""
    latest = latest_version("postgres")
    if await _postgres_version(connection) == latest:
        return latest
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK, timeout=MIGRATION_SECONDS)
        await connection.execute(_LEDGER)
        for step in _pending("postgres", await _postgres_version(connection)):
            await connection.execute(step.sql, timeout=MIGRATION_SECONDS)
            await connection.execute(
                "INSERT INTO schema_migrations VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)",
                step.version,
                step.name,
            )
        await connection.execute(_SEAL)
        await connection.execute(
            "INSERT INTO installation VALUES ('hmac_key', $1) ON CONFLICT DO NOTHING", secrets.token_hex(32)
        )
    return latest


async def _postgres_version(connection: Any) -> int:
    if await connection.fetchval("SELECT to_regclass('schema_migrations')") is None:
        return 0
    version: int = await connection.fetchval("SELECT coalesce(max(version), 0) FROM schema_migrations")
    return version
