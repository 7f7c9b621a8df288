"""libSQL's driver in the manner of Python's ``sqlite3``, and what libSQL does in its own way."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import libsql
from sqlalchemy import text

from layerlore.storage.drivers.sqlite import backend as sqlite_backend
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite import search as sqlite_search
from layerlore.storage.drivers.sqlite.database import SqliteLibrary

# The driver gives every error as a ValueError with SQLite's text: the class and code that layerlore looks at, by its words.
_ERRORS: tuple[tuple[str, type[Exception], int], ...] = (
    ("locked", driver.OperationalError, 5),
    ("readonly", driver.OperationalError, 8),
    ("disk I/O error", driver.OperationalError, 10),
    ("malformed", driver.DatabaseError, 11),
    ("is full", driver.OperationalError, 13),
    ("unable to open", driver.OperationalError, 14),
    ("constraint failed", driver.IntegrityError, 19),
    ("only appended to", driver.IntegrityError, 19),
    ("not a database", driver.DatabaseError, 26),
)
_SQLITE_ERROR = 1
# The driver binds a whole number as a floating-point one, which has no room for more digits.
_EXACT = 2**53


@contextmanager
def _errors_of_sqlite() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise _translated(str(error)) from error
    except BaseException as error:
        # Rust's panic: the driver cannot read a text that is not UTF-8.
        if type(error).__name__ != "PanicException":
            raise
        raise driver.OperationalError("Could not decode to UTF-8") from error


def _translated(message: str) -> Exception:
    known = ((kind, code) for words, kind, code in _ERRORS if words in message)
    kind, code = next(known, (driver.OperationalError, _SQLITE_ERROR))
    translated = kind(message)
    translated.sqlite_errorcode = code  # type: ignore[attr-defined]
    return translated


def _bound(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values as the driver takes them. A large whole number goes as text, which its column or CAST makes a number."""
    return tuple(str(value) if isinstance(value, int) and abs(value) > _EXACT else value for value in values)


class LibsqlCursor:
    """The rows of one statement."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    def fetchall(self) -> list[tuple[Any, ...]]:
        with _errors_of_sqlite():
            # A statement that returns no rows answers None.
            return self._cursor.fetchall() or []

    def fetchone(self) -> tuple[Any, ...] | None:
        with _errors_of_sqlite():
            row: tuple[Any, ...] | None = self._cursor.fetchone()
            return row

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())

    def close(self) -> None:
        self._cursor.close()


class LibsqlConnection:
    """A connection in autocommit mode, used by one thread."""

    # Texts that are not UTF-8 are refused by the driver itself.
    text_factory: Any = str

    def __init__(self, path: str) -> None:
        with _errors_of_sqlite():
            self._connection = libsql.connect(path, isolation_level=None)

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> LibsqlCursor:
        with _errors_of_sqlite():
            return LibsqlCursor(self._connection.execute(sql, _bound(values)))

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        with _errors_of_sqlite():
            self._connection.executemany(sql, [_bound(row) for row in rows])

    def interrupt(self) -> None:
        """The driver has no way to stop a statement."""

    def close(self) -> None:
        self._connection.close()


def connect(path: str, *, synchronous: str, read_only: bool = False) -> LibsqlConnection:
    connection = LibsqlConnection(path)
    try:
        driver.set_up(connection, synchronous=synchronous, read_only=read_only)
    except BaseException:
        connection.close()
        raise
    return connection


# A code as a vector of libSQL's type of bits (3), padded to an even number of bytes: their distance is then the number of
# bits that differ.
_AS_VECTOR = "CAST({code} || CASE length({code}) % 2 WHEN 0 THEN x'000003' ELSE x'0003' END AS BLOB)"
_NEAREST = f"""
    SELECT row_id FROM search_vectors
    WHERE scope_token IN (:scope_token, :other_token) AND model = :model {{among}}
    ORDER BY vector_distance_cos({_AS_VECTOR.format(code="code")}, {_AS_VECTOR.format(code=":code")}), row_id
    LIMIT :most
"""

VECTORS = SimpleNamespace(
    nearest=partial(sqlite_search.nearest, statement=text(_NEAREST.format(among=""))),
    NEAREST_AMONG=text(_NEAREST.format(among="AND row_id IN (SELECT value FROM json_each(:row_ids))")),
    PUT=sqlite_search.PUT,
    of_rows=sqlite_search.of_rows,
    as_code=sqlite_search.as_code,
)


def _sqlite_version() -> str:
    """Of the SQLite inside, which the driver's own constant does not say."""
    ((version,),) = LibsqlConnection(":memory:").execute("SELECT sqlite_version()").fetchall()
    return str(version)


def describe() -> dict[str, Any]:
    return {"libsql": libsql.__name__, "sqlite": _sqlite_version(), "vector_extension": "libSQL's own"}


def warnings() -> list[str]:
    if tuple(int(part) for part in _sqlite_version().split(".")) >= driver.SAFE_WAL_VERSION:
        return []
    return ["this libSQL can corrupt a file that several processes write; use one process"]


BACKEND = SimpleNamespace(
    **{name: value for name, value in vars(sqlite_backend).items() if not name.startswith("_")}
    | {"name": "libsql", "vectors": VECTORS, "describe": describe, "warnings": warnings}
)
LIBSQL = SqliteLibrary(connect, BACKEND)
