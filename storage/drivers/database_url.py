"""The URL that names the database: whether it can be read, and what of it may be shown."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Json
from layerlore.storage.drivers.postgres.url import read_url
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.file import refuse_what_is_no_file

FORMS = "nothing, sqlite:///absolute/path.db, sqlite://:memory:, or postgresql://user:password@host:5432/name"
_SCHEMES = ("sqlite", "postgresql", "postgres")
_HOST = linear_re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")


def check(url: str) -> None:
    """Raises ValueError, whose text repeats nothing of the URL, for one of no known form or that cannot be read."""
    scheme, separator, rest = url.partition("://")
    if url and not (separator and scheme in _SCHEMES and rest):
        raise ValueError(f"the URL is of no known form; allowed: {FORMS}")
    if url and scheme != "sqlite":
        read_url(url)
    if url and scheme != "sqlite" and not _can_be_taken_apart(url):
        raise ValueError("the URL cannot be read: special characters in its user and password must be percent-encoded")


def check_roles(url: str) -> None:
    """Raises ValueError for the URL of a file where one of a database with roles is needed."""
    if url.startswith("sqlite:"):
        raise ValueError("must be a postgresql:// URL")


def _can_be_taken_apart(url: str) -> bool:
    """Whether the parts of a Postgres URL are where they belong, so that none of them holds a piece of the password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    hosts = parts.netloc.rpartition("@")[2].split(",")
    return "@" not in parts.path + parts.query + parts.fragment and all(_HOST.fullmatch(host) for host in hosts)


def without_password(url: str) -> str:
    """A Postgres URL's user, hosts, ports and database, and nothing else of it; for a URL that passed the check."""
    parts = urlsplit(url)
    login, _, hosts = parts.netloc.rpartition("@")
    user = login.partition(":")[0]
    hosts = hosts or ",".join(parse_qs(parts.query).get("host", []))
    return f"postgresql://{user}{'@' if user else ''}{hosts}{parts.path}"


# A view may have no end, and a virtual table may do anything.
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"


class ForeignFile:
    """The rows of its tables. Raises NotFound, and InvalidInput for a file that is not a database, or is damaged."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise NotFound(f"there is no file {path}")
        self._path = path

    def __enter__(self) -> "ForeignFile":
        refuse_what_is_no_file(self._path)
        try:
            self._connection = driver.connect(str(self._path), synchronous="NORMAL", read_only=True)
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._tables = {row[0] for row in self._connection.execute(_TABLES)}
        except driver.DatabaseError as error:
            raise self._unfit(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        return table in self._tables

    def rows(self, table: str, order_by: str, columns: Sequence[str] = (), value: str = "") -> Iterator[Json]:
        """The rows of a table by column, those with a value in the first of these columns that it has; none where the table
        is absent."""
        if not self.has(table):
            return
        try:
            there = [row[1] for row in self._connection.execute(f'PRAGMA table_info("{table}")')]
            by = next((name for name in columns if name in there), "")
            if by:
                where = f'WHERE "{by}" = ?'
            else:
                where = ""
            if columns and not (by and value):
                return
            query = f'SELECT * FROM "{table}" {where} ORDER BY "{order_by}"'  # noqa: S608 - names of ours
            for row in self._connection.execute(query, (value,) if by else ()):
                yield dict(zip(there, row, strict=True))
        except driver.DatabaseError as error:
            raise self._unfit(error) from error

    def _unfit(self, error: BaseException) -> InvalidInput:
        return InvalidInput(f"{self._path} cannot be read: {driver.describe_error(error)}")
