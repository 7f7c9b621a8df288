"""Chooses the database from one URL."""

import asyncio
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.database_url import ShardUrls, has_roles
from layerlore.storage.drivers.sqlite.database import MEMORY, SqliteDatabase

FORMS = (
    "sqlite:///absolute/path.db, sqlite:///~/path.db, sqlite://relative/path.db, sqlite://:memory:, "
    "or postgresql://user:password@host:5432/database"
)


def sqlite_path(url: str, default: Path) -> str | None:
    """The SQLite file that a URL names (``default`` for the empty URL, ``:memory:``), or None for Postgres.

    Three slashes and four both begin an absolute path. Raises InvalidInput for any other form; the URL itself is not
    repeated, since it may hold a password.
    """
    if not url:
        return str(default)
    if has_roles(url):
        return None
    scheme, _, rest = url.partition("://")
    if scheme != "sqlite" or not rest.strip("/"):
        raise InvalidInput(f"the database URL is of no known form; allowed: {FORMS}")
    bare = rest.lstrip("/")
    if bare == MEMORY:
        return MEMORY
    # Without a slash the path is relative. A drive or ~ makes it absolute by itself.
    if rest == bare or bare.startswith("~") or Path(bare).drive:
        return str(Path(bare).expanduser())
    return f"/{bare}"


def is_in_memory(url: str, default: Path) -> bool:
    """Whether the database that a URL names ends with the process. Raises InvalidInput for a URL of no known form."""
    return sqlite_path(url, default) == MEMORY


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
    """Open the database that ``url`` names, its tables brought up to date.

    ``listen_url``: of the same Postgres past a pooler, for the connection that listens for changes of others.
    ``idle_seconds`` and ``lock_seconds``: when Postgres ends a transaction that does nothing, and a wait for a lock.
    ``shards``: more Postgres clusters of the installation, by their names; ``url`` is then the home cluster.

    Raises InvalidInput for a URL of no known form, StorageUnavailable, or DatabaseTooNew.
    """
    path = sqlite_path(url, default)
    if path is None:
        # asyncpg takes a while to load, which must not hold up the event loop.
        postgres = await asyncio.to_thread(importlib.import_module, "layerlore.storage.drivers.postgres.database")
        patience = postgres.Patience(idle_seconds, lock_seconds)

        async def open_cluster(given: ShardUrls, shard: str | None) -> Any:
            return await postgres.PostgresDatabase.open(
                given.url, pool_size=pool_size, listen_url=given.listen, patience=patience, shard=shard
            )

        home = ShardUrls(url, listen_url)
        if shards:
            sharded = importlib.import_module("layerlore.storage.drivers.sharded")
            opened: Database = await sharded.open_sharded(open_cluster, home, shards)
        else:
            opened = await open_cluster(home, None)
        return opened
    return await SqliteDatabase.open(path, synchronous=synchronous, readers=readers)
