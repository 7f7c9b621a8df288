"""Checks and backups of a database."""

import contextlib
import importlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from layerlore.storage.core.errors import InvalidInput, StorageUnavailable
from layerlore.storage.drivers.database import sqlite_path
from layerlore.storage.drivers.database_url import without_password
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.backup import WAY_OUT, PutBack, make_backup, put_in_place, whole_check
from layerlore.storage.drivers.sqlite.database import MEMORY
from layerlore.storage.drivers.sqlite.file import refuse_what_is_no_file
from layerlore.storage.drivers.sqlite.migration import sqlite_version

_NEWER_SQLITE = "use a Python for which pysqlite3 has a wheel, or one that was built with a current SQLite"
_REPAIR = "repair it, or name another database"
_IN_MEMORY = "in memory: everything is lost when the server ends"


@dataclass(frozen=True, slots=True)
class Ability:
    """One thing that a database can do, or (``has`` False) cannot; ``mend`` says how it could."""

    section: str
    name: str
    value: str
    has: bool = True
    mend: str = ""
    needed: bool = False


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """The state of a database. ``failure`` says why it cannot be used. ``version``: of its schema, 0 before the first start.
    ``mend``: how to fix what makes it unusable; ``way_out``: what to do about damage."""

    kind: Literal["sqlite", "postgres"]
    where: str
    version: int = 0
    exists: bool = True
    failure: str = ""
    server: str = ""
    damage: tuple[str, ...] = ()
    mend: str = ""
    way_out: str = WAY_OUT

    @property
    def place(self) -> str:
        """For people: where the database is."""
        if self.where == MEMORY:
            return _IN_MEMORY
        return self.where

    @property
    def latest(self) -> int:
        """The newest schema version that this layerlore knows."""
        return latest_version(self.kind)

    @property
    def file(self) -> Path | None:
        """The SQLite file, if it is there."""
        if self.kind == "sqlite" and self.exists and self.where != MEMORY:
            return Path(self.where)
        return None


async def look_at_database(url: str, default: Path, *, whole: bool = False) -> DatabaseState:
    """The state of the database that ``url`` names; ``default``: the file for the empty URL. It takes about ten seconds
    at most, unless the ``whole`` file is checked. Raises InvalidInput for a URL of an unknown form."""
    path = sqlite_path(url, default)
    if path is None:
        return await _look_at_postgres(url)
    if path == MEMORY:
        return DatabaseState("sqlite", MEMORY, exists=False)
    return _look_at_file(path, whole=whole)


def _look_at_file(named: str, *, whole: bool) -> DatabaseState:
    path = Path(named).absolute()
    if not path.exists():
        return DatabaseState("sqlite", str(path), exists=False, failure=find_obstacle(path.parent), mend=_REPAIR)
    try:
        refuse_what_is_no_file(path)
        with contextlib.closing(_open_read_only(path)) as connection:
            version = sqlite_version(connection)
            # An empty file is fine: the first start makes its tables.
            if version == 0:
                return DatabaseState("sqlite", str(path))
            if whole:
                damage = tuple(whole_check(connection))
            else:
                damage = ()
    except StorageUnavailable as error:
        return DatabaseState("sqlite", str(path), failure=str(error), mend=_REPAIR)
    except driver.DatabaseError as error:
        if driver.is_damage(error):
            mend = WAY_OUT
        else:
            mend = _REPAIR
        return DatabaseState("sqlite", str(path), failure=driver.describe_error(error), mend=mend)
    usable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    if usable:
        failure = ""
    else:
        failure = "the file or its folder is not writable"
    return DatabaseState("sqlite", str(path), version=version, failure=failure, damage=damage, mend=_REPAIR)


def find_obstacle(folder: Path) -> str:
    """Why nothing can be written into a folder, which need not be there yet; "" if it can. It is tried with an empty
    folder, which is gone at once, in the nearest one that is there: what a mode allows a file system may still refuse."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".layerlore-", dir=there):
            return ""
    except OSError as error:
        return f"nothing can be written into {there} ({error.strerror})"


def _open_read_only(path: Path) -> driver.Connection:
    # A read-only connection to a file in WAL mode leaves new -wal and -shm files behind. With no log beside the file
    # there is nothing in it to read, and `immutable` reads the file alone.
    alone = not any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal"))
    uri = f"{path.as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    return driver.driver.connect(uri, uri=True, timeout=1.0)


async def _look_at_postgres(url: str) -> DatabaseState:
    # asyncpg takes a while to load, and most databases are files.
    roles = importlib.import_module("layerlore.storage.drivers.postgres.roles")
    found = await roles.look_at_server(url)
    where = without_password(url)
    mend = "start its server, or correct the URL"
    return DatabaseState(
        "postgres", where, version=found.version, server=found.server, failure=found.failure, mend=mend
    )


def list_abilities(kind: Literal["sqlite", "postgres"]) -> list[Ability]:
    """List the abilities of the databases of a kind on this machine."""
    able = driver.abilities()
    version = Ability("SQLite", "version", f"{able.version}, from {able.module}")
    if kind == "postgres":
        return [
            version,
            Ability("search", "full text", "tsvector"),
            Ability("search", "vectors", "compared by Postgres itself, without an extension"),
        ]
    safe_version = ".".join(str(number) for number in driver.SAFE_WAL_VERSION)
    return [
        version,
        _choose(
            "several processes",
            able.wal_safe,
            yes="may share one file",
            no="can corrupt a file that several of them write",
            mend=f"SQLite before {safe_version} has that defect: let one process write, or {_NEWER_SQLITE}",
        ),
        _choose(
            "secure delete",
            able.fts5_secure_delete,
            yes="rows and words of the index",
            no="rows only",
            mend=f"erased words stay in the pages of the index for a while: {_NEWER_SQLITE}",
        ),
        Ability("SQLite", "extensions", "can be loaded" if able.extensions else "cannot be loaded by this Python"),
        _choose(
            "full text",
            able.fts5,
            yes="FTS5",
            no="this SQLite has no FTS5",
            mend=_NEWER_SQLITE,
            section="search",
            needed=True,
        ),
        _choose(
            "vectors",
            able.vector_extension is not None,
            yes=f"sqlite-vec {able.vector_extension}",
            no="compared in Python, which is several times slower: sqlite-vec cannot be loaded",
            mend=_NEWER_SQLITE,
            section="search",
        ),
    ]


def _choose(
    name: str, has: bool, *, yes: str, no: str, mend: str, section: str = "SQLite", needed: bool = False
) -> Ability:
    if has:
        return Ability(section, name, yes)
    return Ability(section, name, no, False, mend, needed)


def back_up(url: str, default: Path, target: Path) -> None:
    """Copy the database that ``url`` names into a new file; servers may go on writing. ``default``: the file for the
    empty URL.

    Raises InvalidInput for a database that is no file, NotFound, Conflict, StorageUnavailable or OSError.
    """
    make_backup(_find_file(url, default, "pg_dump"), target)


def put_back(url: str, default: Path, backup: Path, stamp: str) -> tuple[Path, PutBack]:
    """Replace the database with a backup. Returns its file, and what was done; the former file stays, with ``stamp`` in
    its name.

    Raises what ``back_up`` raises, DatabaseTooNew or DatabaseTooOld.
    """
    store = _find_file(url, default, "pg_restore")
    return store, put_in_place(backup, store, stamp)


def is_latest(done: PutBack) -> bool:
    """Whether the file that was put back has the tables of today; else the next start updates it."""
    return done.version == latest_version("sqlite")


def _find_file(url: str, default: Path, instead: str) -> Path:
    path = sqlite_path(url, default)
    if path is None:
        raise InvalidInput(f"this command is for SQLite; for Postgres, use {instead} (docs/tenants.md)")
    if path == MEMORY:
        raise InvalidInput("there is no database file: memory is off, or the database is in memory")
    return Path(path).absolute()
