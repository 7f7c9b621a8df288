"""SQLite as a kind of database: what its URL means. Its driver is loaded when a file is opened."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.drivers.dialect import Ability, DatabaseState, OpenOptions

if TYPE_CHECKING:
    from layerlore.storage.core.transaction import Database

MEMORY = ":memory:"
FORM = "sqlite:///absolute/path.db, sqlite:///~/path.db, sqlite://relative/path.db, sqlite://:memory:"


def path_of(url: str, default: Path) -> str:
    """The file that a URL names (``default`` for the empty URL), or ``:memory:``. Three slashes and four both begin an
    absolute path.

    Raises InvalidInput for a URL of no known form; the URL itself is not repeated.
    """
    if not url:
        return str(default)
    scheme, separator, rest = url.partition("://")
    if scheme != "sqlite" or not separator or not rest.strip("/"):
        raise InvalidInput(f"the database URL names no file; allowed: {FORM}")
    bare = rest.lstrip("/")
    if bare == MEMORY:
        return MEMORY
    # Without a slash the path is relative. A drive or ~ makes it absolute by itself.
    if rest == bare or bare.startswith("~") or Path(bare).drive:
        return str(Path(bare).expanduser())
    return f"/{bare}"


class SqliteDialect:
    """Opens a file, or a database in memory."""

    form = FORM
    has_roles = False

    def check(self, url: str) -> None:
        """Every path names a file."""

    def is_in_memory(self, url: str) -> bool:
        return path_of(url, Path()) == MEMORY

    async def open(self, url: str, options: OpenOptions) -> "Database":
        path = path_of(url, options.default_file)
        module = importlib.import_module("layerlore.storage.drivers.sqlite.database")
        opened = await module.SqliteDatabase.open(path, synchronous=options.synchronous, readers=options.readers)
        return cast("Database", opened)

    async def look(self, url: str, default_file: Path, *, whole: bool) -> DatabaseState:
        inspection = importlib.import_module("layerlore.storage.drivers.sqlite.inspection")
        return cast("DatabaseState", inspection.look_at_file(path_of(url, default_file), whole=whole))

    def abilities(self) -> list[Ability]:
        inspection = importlib.import_module("layerlore.storage.drivers.sqlite.inspection")
        return cast("list[Ability]", inspection.abilities())


DIALECT = SqliteDialect()
