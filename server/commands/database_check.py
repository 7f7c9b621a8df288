"""Looks at the database that the settings name, without making or changing anything."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import asyncpg

from layerlore.server.database_url import without_password
from layerlore.server.settings import Settings
from layerlore.storage import sqlite_driver
from layerlore.storage.database import sqlite_path
from layerlore.storage.database_file import refuse_what_is_no_file
from layerlore.storage.errors import StorageUnavailable
from layerlore.storage.migrations.runner import latest_version
from layerlore.storage.postgres_url import read_url
from layerlore.storage.sqlite_damage import WAY_OUT, whole_check
from layerlore.storage.sqlite_database import MEMORY

CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """What is there. ``failure`` says why it cannot be used; ``version`` is its schema's: 0 before the first start."""

    kind: Literal["sqlite", "postgres"]
    where: str
    version: int = 0
    exists: bool = True
    failure: str = ""
    server: str = ""
    damage: tuple[str, ...] = ()
    mend: str = ""

    @property
    def latest(self) -> int:
        """The newest schema version that this layerlore knows."""
        return latest_version(self.kind)

    @property
    def file(self) -> Path | None:
        """The SQLite file, if it is there."""
        return Path(self.where) if self.kind == "sqlite" and self.exists and self.where != MEMORY else None


async def look_at_database(settings: Settings, *, whole: bool = False) -> DatabaseState:
    """The state of the database; takes at most some ten seconds, unless the ``whole`` file is checked. Raises InvalidInput for a URL of no known form."""
    url = settings.database.get_secret_value()
    path = sqlite_path(url, settings.database_file)
    if path is None:
        return await _look_at_postgres(url)
    if path == MEMORY:
        return DatabaseState("sqlite", MEMORY, exists=False)
    return _look_at_file(path, whole=whole)


def _look_at_file(named: str, *, whole: bool) -> DatabaseState:
    path = Path(named).absolute()
    if not path.exists():
        folder = next(parent for parent in path.parents if parent.exists())
        usable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
        return DatabaseState(
            "sqlite", str(path), exists=False, failure="" if usable else f"nothing can be written in {folder}"
        )
    try:
        refuse_what_is_no_file(path)
        with contextlib.closing(_open_read_only(path)) as connection:
            query = "SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'"
            if connection.execute(query).fetchone() is None:
                return DatabaseState("sqlite", str(path))
            version = connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()[0]
            damage = tuple(whole_check(connection)) if whole else ()
    except StorageUnavailable as error:
        return DatabaseState("sqlite", str(path), failure=str(error))
    except sqlite_driver.DatabaseError as error:
        mend = WAY_OUT if sqlite_driver.is_damage(error) else ""
        return DatabaseState("sqlite", str(path), failure=sqlite_driver.told(error), mend=mend)
    usable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    failure = "" if usable else "the file or its folder cannot be written"
    return DatabaseState("sqlite", str(path), version=version, failure=failure, damage=damage)


def _open_read_only(path: Path) -> sqlite_driver.Connection:
    # A read-only connection to a file in WAL mode leaves new -wal and -shm files behind. With no log beside the file
    # there is nothing in it to read, and `immutable` reads the file alone.
    alone = not any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal"))
    uri = f"{path.as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    return sqlite_driver.driver.connect(uri, uri=True, timeout=1.0)


async def _look_at_postgres(url: str) -> DatabaseState:
    where = without_password(url)
    try:
        given = read_url(url)
        connection = await asyncpg.connect(
            given.dsn, timeout=CONNECT_SECONDS, command_timeout=CONNECT_SECONDS, statement_cache_size=given.statements
        )
        try:
            async with connection.transaction(readonly=True):
                return DatabaseState(
                    "postgres",
                    where,
                    version=await _postgres_version(connection),
                    server=await connection.fetchval("SHOW server_version"),
                )
        finally:
            await connection.close(timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return DatabaseState("postgres", where, failure=_why(error))


async def _postgres_version(connection: "asyncpg.Connection[asyncpg.Record]") -> int:
    if await connection.fetchval("SELECT to_regclass('schema_migrations')") is None:
        return 0
    version: int = await connection.fetchval("SELECT coalesce(max(version), 0) FROM schema_migrations")
    return version


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS:g} s"
    # What is raised where the URL is read may repeat it.
    return type(error).__name__ if isinstance(error, ValueError) else str(error) or type(error).__name__
