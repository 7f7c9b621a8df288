"""The kinds of databases by the scheme of their URL: the two that come along, and those of other packages.

Another package registers its kind as an entry point of the group ``layerlore.databases``: the scheme is its name, and an
object that fulfils ``Dialect`` its value.
"""

import importlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from layerlore.storage.core.errors import InvalidInput

if TYPE_CHECKING:
    # A URL is checked before the first answer of a server, which does not wait for SQLAlchemy.
    from layerlore.storage.core.transaction import Database

GROUP = "layerlore.databases"
_BUILT_IN = {
    "sqlite": "layerlore.storage.drivers.sqlite.dialect",
    "postgresql": "layerlore.storage.drivers.postgres.dialect",
    "postgres": "layerlore.storage.drivers.postgres.dialect",
}


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
    """The state of a database. ``failure`` says why it cannot be used, ``weakness`` what works less well. ``version``: of its
    schema, 0 before the first start; ``latest``: the newest that this layerlore knows. ``place`` says for people where it
    is; ``file`` is its file, if it has one that is there. ``shard``: the name of the cluster that it was made for; None: it
    is alone, or new. ``mend``: how to fix what makes it unusable; ``way_out``: what to
    do about damage."""

    kind: str
    where: str
    latest: int
    version: int = 0
    exists: bool = True
    failure: str = ""
    weakness: str = ""
    server: str = ""
    shard: str | None = None
    damage: tuple[str, ...] = ()
    mend: str = ""
    way_out: str = ""
    place: str = ""
    file: Path | None = None


HOME = ""
"""The name of the home cluster among the clusters of an installation."""
HOME_NAME = "home"
"""The name of the home cluster in commands."""


@dataclass(frozen=True, slots=True)
class ShardUrls:
    """The URLs of one more cluster. ``listen``: past a pooler, for the connection that listens; "": the same."""

    url: str
    listen: str = ""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """The settings of a database beside its URL. A kind of database ignores those that it has no use for.

    ``default_file``: the file of the empty URL. ``synchronous`` and ``readers`` are of files. ``pool_size``,
    ``idle_seconds`` and ``lock_seconds``: the connections to a server, when it ends a transaction that does nothing,
    and a wait for a lock. ``listen_url``: of the same server past a pooler, for the connection that listens for changes
    of others. ``shards``: more clusters of the installation, by their names; the URL is then the home cluster's.
    """

    default_file: Path
    synchronous: str = "FULL"
    readers: int = 2
    pool_size: int = 10
    listen_url: str = ""
    idle_seconds: float = 3.0
    lock_seconds: float = 8.0
    shards: Mapping[str, ShardUrls] = field(default_factory=dict)


class Dialect(Protocol):
    """A kind of database: what its URL means, how it is opened, and what ``layerlore doctor`` shows of it. Its module loads
    quickly: the driver is loaded by ``open``."""

    @property
    def form(self) -> str:
        """The forms of its URL, as an error lists them."""
        ...

    @property
    def has_roles(self) -> bool:
        """Whether one role may own the tables, and another serve. A file has no roles."""
        ...

    def check(self, url: str) -> None:
        """Raises ValueError, whose text repeats nothing of the URL, for one that cannot be read."""
        ...

    def is_in_memory(self, url: str) -> bool:
        """Whether the database that a URL names ends with the process."""
        ...

    async def open(self, url: str, options: OpenOptions) -> "Database":
        """Open the database, its tables brought up to date. Raises InvalidInput for a URL that names none,
        StorageUnavailable, DatabaseTooNew or DatabaseTooOld."""
        ...

    async def look(self, url: str, default_file: Path, *, whole: bool) -> DatabaseState:
        """The state of the database, which is neither made nor changed; at most some ten seconds unless the ``whole`` of it
        is checked for damage. Raises InvalidInput for a URL that names none."""
        ...

    def abilities(self) -> list[Ability]:
        """The abilities of such databases on this machine."""
        ...


FORMS = (
    "sqlite:///absolute/path.db, sqlite:///~/path.db, sqlite://relative/path.db, sqlite://:memory:, "
    "or postgresql://user:password@host:5432/database"
)
"""The forms of URLs that errors list."""


def choose_dialect(url: str) -> Dialect | None:
    """The kind of database that a URL names; the empty one names a SQLite file. None for a URL of no known form."""
    scheme, separator, rest = url.partition("://")
    if url and not (scheme and separator and rest.strip("/")):
        return None
    return find_dialect(scheme)


@cache
def find_dialect(scheme: str) -> Dialect | None:
    """The kind of database that a URL's scheme names; the empty one means SQLite. None if no package here knows it.

    Raises InvalidInput if the package that knows it cannot be loaded.
    """
    module = _BUILT_IN.get(scheme or "sqlite")
    if module is not None:
        return cast("Dialect", importlib.import_module(module).DIALECT)
    # Reads the metadata of every package that is installed, so that it is not loaded for the kinds that come along.
    metadata = importlib.import_module("importlib.metadata")
    for entry in metadata.entry_points(group=GROUP, name=scheme):
        try:
            return cast("Dialect", entry.load())
        except (ImportError, AttributeError) as error:
            raise InvalidInput(
                f"the package that serves databases of the scheme {scheme} cannot be loaded: {error}"
            ) from error
    return None


def check(url: str) -> None:
    """Raises ValueError, whose text repeats nothing of the URL, for one of no known form or that cannot be read."""
    if not url:
        return
    try:
        dialect = choose_dialect(url)
    except InvalidInput as error:
        raise ValueError(str(error)) from None
    if dialect is None:
        raise ValueError(f"the URL is of no known form; allowed: nothing, {FORMS}")
    dialect.check(url)


def check_roles(url: str) -> None:
    """Raises ValueError for the URL of a database without roles where one that has them is needed."""
    dialect = find_dialect(url.partition("://")[0])
    if url and dialect is not None and not dialect.has_roles:
        raise ValueError("must be a postgresql:// URL")


def find_obstacle(folder: Path) -> str:
    """Why nothing can be written into a folder, which need not be there yet; "" if it can. It is tried with an empty
    folder, which is gone at once, in the nearest one that is there: what a mode allows a file system may still refuse."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".layerlore-", dir=there):
            return ""
    except OSError as error:
        return f"nothing can be written into {there} ({error.strerror})"


def dialect_of(url: str) -> Dialect:
    """The kind of database that a URL names; the empty one names a SQLite file.

    Raises InvalidInput for a URL of no known form, which is not repeated, since it may hold a password.
    """
    dialect = choose_dialect(url)
    if dialect is None:
        raise InvalidInput(f"the database URL is of no known form; allowed: {FORMS}")
    return dialect


async def open_database(url: str, default: Path) -> "Database":
    """Open the database that ``url`` names with the usual options, its tables brought up to date; ``default`` is the file
    of the empty URL.

    Raises InvalidInput for a URL of no known form, StorageUnavailable, or DatabaseTooNew.
    """
    return await dialect_of(url).open(url, OpenOptions(default))


async def look_at_database(url: str, default: Path, *, whole: bool = False) -> DatabaseState:
    """The state of the database that ``url`` names; ``default``: the file for the empty URL. It takes about ten seconds
    at most, unless the ``whole`` file is checked. Raises InvalidInput for a URL of an unknown form."""
    return await dialect_of(url).look(url, default, whole=whole)
