"""The numbered steps that make and update a database: ``NNNN_name.sqlite.sql`` and ``NNNN_name.postgres.sql``.

Each driver takes the steps that its database lacks in one transaction, under a lock. A kill at any statement leaves the
database as it was, and processes that start together wait for the first.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import DatabaseTooNew, DatabaseTooOld

_FILE = linear_re.compile(r"(\d{4})_([a-z0-9_]+)\.([a-z]+)\.sql")

LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at BIGINT NOT NULL
)
"""
TAKEN = "SELECT version, name FROM schema_migrations ORDER BY version"


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str


@cache
def migrations(database: str) -> tuple[Migration, ...]:
    """All steps for one database, in order."""
    steps = []
    for entry in files("layerlore.storage.drivers.migrations").iterdir():
        match = _FILE.fullmatch(entry.name)
        if match and match[3] == database:
            steps.append(Migration(int(match[1]), match[2], entry.read_text(encoding="utf-8")))
    return tuple(sorted(steps, key=lambda step: step.version))


def latest_version(database: str) -> int:
    return migrations(database)[-1].version


def reached_version(database: str, taken: list[tuple[int, str]]) -> int:
    """The version of a database that took these steps. Raises DatabaseTooOld."""
    if not taken:
        return 0
    # Its tables began in another way, so the numbers of its steps say nothing here.
    first = migrations(database)[0]
    if taken[0] != (first.version, first.name):
        raise DatabaseTooOld(
            "this database was made by an earlier layerlore, and this one cannot update it: export it with the layerlore "
            "that made it (`layerlore export`), and import the file into a new database (`layerlore import`)"
        )
    return taken[-1][0]


def pending(database: str, version: int) -> list[Migration]:
    """The steps that a database at this version lacks, in order. Raises DatabaseTooNew."""
    known = latest_version(database)
    if version > known:
        raise DatabaseTooNew(
            f"this database is at schema version {version}, and this layerlore knows versions up to {known}: "
            "a newer layerlore wrote it. Upgrade layerlore, or point it at another database"
        )
    return [step for step in migrations(database) if step.version > version]
