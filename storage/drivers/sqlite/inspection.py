"""The state of a SQLite file, read without changing it, and the abilities of the SQLite at hand."""

import contextlib
import os
from pathlib import Path

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.drivers.dialect import Ability, DatabaseState, find_obstacle
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.backup import WAY_OUT, whole_check
from layerlore.storage.drivers.sqlite.dialect import MEMORY
from layerlore.storage.drivers.sqlite.file import refuse_what_is_no_file, sqlite_version

_NEWER_SQLITE = "use a Python for which pysqlite3 has a wheel, or one that was built with a current SQLite"
_REPAIR = "repair it, or name another database"


def look_at_file(named: str, *, whole: bool) -> DatabaseState:
    """The state of a file, or of a database in memory."""
    if named == MEMORY:
        place = "in memory: everything is lost when the server ends"
        return DatabaseState("sqlite", MEMORY, latest_version("sqlite"), exists=False, place=place)
    path = Path(named).absolute()
    if not path.exists():
        return _state(path, exists=False, failure=find_obstacle(path.parent), mend=_REPAIR)
    try:
        refuse_what_is_no_file(path)
        with contextlib.closing(_open_read_only(path)) as connection:
            version = sqlite_version(connection)
            # An empty file is fine: the first start makes its tables.
            if version == 0:
                return _state(path)
            if whole:
                damage = tuple(whole_check(connection))
            else:
                damage = ()
    except StorageUnavailable as error:
        return _state(path, failure=str(error), mend=_REPAIR)
    except driver.DatabaseError as error:
        if driver.is_damage(error):
            mend = WAY_OUT
        else:
            mend = _REPAIR
        return _state(path, failure=driver.describe_error(error), mend=mend)
    usable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    if usable:
        failure = ""
    else:
        failure = "the file or its folder is not writable"
    return _state(path, version=version, failure=failure, damage=damage, mend=_REPAIR)


def _state(
    path: Path,
    *,
    version: int = 0,
    exists: bool = True,
    failure: str = "",
    damage: tuple[str, ...] = (),
    mend: str = "",
) -> DatabaseState:
    return DatabaseState(
        "sqlite",
        str(path),
        latest_version("sqlite"),
        version=version,
        exists=exists,
        failure=failure,
        damage=damage,
        mend=mend,
        way_out=WAY_OUT,
        place=str(path),
        file=path if exists else None,
    )


def _open_read_only(path: Path) -> driver.Connection:
    # A read-only connection to a file in WAL mode leaves new -wal and -shm files behind. With no log beside the file
    # there is nothing in it to read, and `immutable` reads the file alone.
    alone = not any(path.with_name(path.name + ending).exists() for ending in ("-wal", "-journal"))
    uri = f"{path.as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    return driver.driver.connect(uri, uri=True, timeout=1.0)


def abilities() -> list[Ability]:
    """The abilities of the SQLite of this machine."""
    able = driver.abilities()
    version = Ability("SQLite", "version", f"{able.version}, from {able.module}")
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
