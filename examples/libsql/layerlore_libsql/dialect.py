"""What a ``libsql://`` URL means. The driver is loaded when a file is opened."""

import importlib
from dataclasses import replace
from pathlib import Path

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.dialect import Ability, DatabaseState, OpenOptions
from layerlore.storage.drivers.sqlite import inspection
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

FORM = "libsql:///absolute/path.db"


class LibsqlDialect:
    """Opens a file on this machine."""

    form = FORM
    has_roles = False

    def check(self, url: str) -> None:
        if not url.removeprefix("libsql://").startswith("/"):
            raise ValueError(f"the URL names no file on this machine; allowed: {FORM}")

    def is_in_memory(self, url: str) -> bool:
        return False

    async def open(self, url: str, options: OpenOptions) -> Database:
        library = importlib.import_module("layerlore_libsql.library")
        return await SqliteDatabase.open(
            _path_of(url), synchronous=options.synchronous, readers=options.readers, library=library.LIBSQL
        )

    async def look(self, url: str, default_file: Path, *, whole: bool) -> DatabaseState:
        # The file is one of SQLite, which can read it.
        return replace(inspection.look_at_file(_path_of(url), whole=whole), kind="libsql")

    def abilities(self) -> list[Ability]:
        return [
            Ability("search", "full text", "FTS5"),
            Ability("search", "vectors", "compared by libSQL itself"),
            Ability(
                "libSQL",
                "several processes",
                "can corrupt a file that several of them write",
                has=False,
                mend="libSQL 0.1.11 carries SQLite 3.45.1, which has that defect: let one process write",
            ),
            Ability(
                "libSQL",
                "long reads",
                "hold up the server until they end",
                has=False,
                mend="the driver can neither be interrupted nor let other threads run; for many users, use Postgres",
            ),
        ]


def _path_of(url: str) -> str:
    path = url.removeprefix("libsql://")
    if not path.startswith("/"):
        raise InvalidInput(f"the database URL names no file on this machine; allowed: {FORM}")
    return path


DIALECT = LibsqlDialect()
