"""Opens the database that one URL names."""

from collections.abc import Mapping
from pathlib import Path

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.dialect import Dialect, OpenOptions, ShardUrls, find_dialect

FORMS = (
    "sqlite:///absolute/path.db, sqlite:///~/path.db, sqlite://relative/path.db, sqlite://:memory:, "
    "or postgresql://user:password@host:5432/database"
)


def dialect_of(url: str) -> Dialect:
    """The kind of database that a URL names; the empty one names a SQLite file.

    Raises InvalidInput for a URL of no known form, which is not repeated, since it may hold a password.
    """
    scheme, separator, rest = url.partition("://")
    dialect = find_dialect(scheme) if not url or (scheme and separator and rest.strip("/")) else None
    if dialect is None:
        raise InvalidInput(f"the database URL is of no known form; allowed: {FORMS}")
    return dialect


def is_in_memory(url: str) -> bool:
    """Whether the database that a URL names ends with the process. Raises InvalidInput for a URL of no known form."""
    return dialect_of(url).is_in_memory(url)


def has_roles(url: str) -> bool:
    """Whether one role may own the tables of this database, and another serve. Raises InvalidInput for a URL of no known
    form."""
    return dialect_of(url).has_roles


async def open_database(
    url: str,
    default: Path,
    *,
    synchronous: str = "FULL",
    readers: int = 2,
    pool_size: int = 10,
    listen_url: str = "",
    idle_seconds: float = 3.0,
    lock_seconds: float = 8.0,
    shards: Mapping[str, ShardUrls] | None = None,
) -> Database:
    """Open the database that ``url`` names, its tables brought up to date; ``default`` is the file of the empty URL. See
    ``OpenOptions`` for the others.

    Raises InvalidInput for a URL of no known form, StorageUnavailable, or DatabaseTooNew.
    """
    options = OpenOptions(
        default, synchronous, readers, pool_size, listen_url, idle_seconds, lock_seconds, shards or {}
    )
    return await dialect_of(url).open(url, options)
