"""Brings a database's tables up to date: ``NNNN_what_changed.sqlite.sql`` and ``NNNN_what_changed.postgres.sql``.

All steps that a database lacks run in one transaction under a lock, so a kill at any statement leaves it as it was,
and processes that start together wait for the first. A database from a newer version is refused.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import DatabaseTooNew

_FILE = linear_re.compile(r"(\d{4})_([a-z0-9_]+)\.([a-z]+)\.sql")

LEDGER = """
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
def migrations(database: str) -> tuple[Migration, ...]:
    """All steps for one database, in order."""
    found = [
        (match, entry.read_text(encoding="utf-8"))
        for entry in files("layerlore.storage.drivers.migrations").iterdir()
        if (match := _FILE.fullmatch(entry.name)) and match[3] == database
    ]
    return tuple(sorted((Migration(int(m[1]), m[2], sql) for m, sql in found), key=lambda step: step.version))


def latest_version(database: str) -> int:
    return migrations(database)[-1].version


def pending(database: str, version: int) -> list[Migration]:
    """The steps that a database at this version lacks, in order. Raises DatabaseTooNew."""
    known = latest_version(database)
    if version > known:
        raise DatabaseTooNew(
            f"this database is at schema version {version}, and this layerlore knows versions up to {known}: "
            "a newer layerlore wrote it. Upgrade layerlore, or point it at another database"
        )
    return [step for step in migrations(database) if step.version > version]
