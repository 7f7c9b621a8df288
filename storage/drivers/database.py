"""Opens the database that one URL names."""

from pathlib import Path

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.dialect import FORMS, Dialect, OpenOptions, choose_dialect


def dialect_of(url: str) -> Dialect:
    """The kind of database that a URL names; the empty one names a SQLite file.

    Raises InvalidInput for a URL of no known form, which is not repeated, since it may hold a password.
    """
    dialect = choose_dialect(url)
    if dialect is None:
        raise InvalidInput(f"the database URL is of no known form; allowed: {FORMS}")
    return dialect


async def open_database(url: str, default: Path) -> Database:
    """Open the database that ``url`` names with the usual options, its tables brought up to date; ``default`` is the file
    of the empty URL.

    Raises InvalidInput for a URL of no known form, StorageUnavailable, or DatabaseTooNew.
    """
    return await dialect_of(url).open(url, OpenOptions(default))
