"""A SQLite transaction as store functions see it, and the one hop that runs a whole function in it."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import BindParameter, Executable, Select, TextClause, bindparam

from layerlore.storage.core.records import Scope
from layerlore.storage.core.statements import compiled
from layerlore.storage.core.transaction import Backend, Row, StoreFunctionSuspended
from layerlore.storage.drivers.sqlite import backend, driver
from layerlore.storage.drivers.sqlite.backend import DIALECT, sqlite_arguments
from layerlore.storage.drivers.sqlite.row_cache import PostingCache, RowCache
from layerlore.storage.drivers.sqlite.vector_cache import CodeCache, VectorCache

T = TypeVar("T")

_PIECE = 64
_MOST_LEFT_OUT = 16
"""After this many unreadable rows in a row, reading ends."""
NOT_TEXT = "a stored text is not UTF-8; what cannot be read of it is shown as \ufffd"
LEFT_OUT = "rows that cannot be read are left out of answers"


class SqliteTx:
    """Runs statements at once, in the thread that owns the connection: its methods never suspend.
    ``changed_memory``: whether one of them changed a row that answers are made of.

    A damaged row hides no other: a text that is not UTF-8 is read as far as it is, and where ``leaves_out``, rows that
    cannot be read at all are left out. ``damage`` says so afterwards.
    """

    def __init__(
        self,
        connection: driver.Connection,
        *,
        backend: Backend = backend,
        leaves_out: bool = False,
        codes: CodeCache | None = None,
        postings: PostingCache | None = None,
        rows: RowCache | None = None,
        vectors: VectorCache | None = None,
    ) -> None:
        """``codes``, ``postings``, ``rows`` and ``vectors``: only of a transaction that does not write."""
        self._connection = connection
        self.backend = backend
        self.codes = codes
        self.postings = postings
        self.rows = rows
        self.vectors = vectors
        # Only a transaction that does not write may trust what it read before.
        self.known: dict[TextClause, Row | None] | None = None if codes is None else {}
        self._leaves_out = leaves_out
        self.damage: set[str] = set()
        self.changed_memory = False

    def _execute(self, statement: Executable, values: Mapping[str, Any]) -> Any:
        sql = compiled(statement, DIALECT)
        return self._connection.execute(sql.sql, sqlite_arguments(sql.arguments(values)))

    def _fetch(self, statement: Executable, values: Mapping[str, Any]) -> Sequence[Row]:
        try:
            rows: Sequence[Row] = self._execute(statement, values).fetchall()
            self._note_change(statement, len(rows))
            return rows
        except driver.DatabaseError as error:
            return self._fetch_damaged(statement, values, error)

    def _fetch_damaged(self, statement: Executable, values: Mapping[str, Any], first: BaseException) -> Sequence[Row]:
        """Reads around damage. Raises ``first`` for any other error, or if nothing can be read."""
        # A statement that writes must not run a second time.
        if not isinstance(statement, Select) or not driver.is_damage(first):
            raise first
        if not driver.is_undecodable(first) and not self._leaves_out:
            raise first
        with driver.reading_any_bytes(self._connection):
            if driver.is_undecodable(first):
                self.damage.add(NOT_TEXT)
                try:
                    rows: Sequence[Row] = self._execute(statement, values).fetchall()
                    return rows
                except driver.DatabaseError as error:
                    if not driver.is_damage(error) or not self._leaves_out:
                        raise
            return self._fetch_in_pieces(statement, values, first)

    def _fetch_in_pieces(self, statement: Select[Any], values: Mapping[str, Any], first: BaseException) -> list[Row]:
        """The rows that can be read. Raises ``first`` if none can."""
        piece, start, most = _in_pieces(statement)
        if start is None:
            at = 0
        else:
            at = int(values.get(start.key, start.value) or 0)
        if most is None:
            end = None
        else:
            end = at + int(values.get(most.key, most.value))
        found: list[Row] = []
        left_out, size = 0, _PIECE
        while end is None or at < end:
            if end is not None:
                size = min(size, end - at)
            try:
                rows = self._execute(piece, {**values, "piece_start": at, "piece_size": size}).fetchall()
            except driver.DatabaseError as error:
                if not driver.is_damage(error):
                    raise
                # A smaller piece leaves out fewer rows around the damaged one.
                if size > 1:
                    size = max(1, size // 8)
                    continue
                at, left_out = at + 1, left_out + 1
                if left_out == _MOST_LEFT_OUT:
                    break
                continue
            found += rows
            left_out = 0
            if len(rows) < size:
                break
            at, size = at + size, min(_PIECE, size * 8)
        if not found:
            raise first
        self.damage.add(LEFT_OUT)
        return found

    async def all(self, statement: Executable, /, **values: Any) -> Sequence[Row]:
        return self._fetch(statement, values)

    async def each(self, statement: Executable, take: Callable[[Row], bool], /, **values: Any) -> None:
        taken = 0
        cursor = None
        try:
            cursor = self._execute(statement, values)
            while (row := cursor.fetchone()) is not None:
                taken += 1
                if not take(row):
                    return
        except driver.DatabaseError as error:
            # The rows read before the damage do not come again.
            for row in self._fetch_damaged(statement, values, error)[taken:]:
                if not take(row):
                    return
        finally:
            # An open cursor keeps its snapshot, and with it the write-ahead log.
            if cursor is not None:
                cursor.close()

    async def one(self, statement: Executable, /, **values: Any) -> Row | None:
        rows = self._fetch(statement, values)
        if rows:
            return rows[0]
        return None

    async def scalar(self, statement: Executable, /, **values: Any) -> Any:
        rows = self._fetch(statement, values)
        if rows:
            return rows[0][0]
        return None

    async def scalars(self, statement: Executable, /, **values: Any) -> list[Any]:
        return [row[0] for row in self._fetch(statement, values)]

    async def run(self, statement: Executable, /, **values: Any) -> int:
        changed: int = self._execute(statement, values).rowcount
        self._note_change(statement, changed)
        return changed

    async def many(self, statement: Executable, rows: Sequence[Mapping[str, Any]], /) -> None:
        sql = compiled(statement, DIALECT)
        self._connection.executemany(sql.sql, [sqlite_arguments(sql.arguments(row)) for row in rows])
        self._note_change(statement, len(rows))

    def _note_change(self, statement: Executable, rows: int) -> None:
        # The driver counts -1 rows where it does not know how many changed.
        if rows and compiled(statement, DIALECT).changes_memory:
            self.changed_memory = True

    async def enter(self, scope: Scope) -> None:
        """SQLite has no second line that would have to know."""


@cache
def _in_pieces(statement: Select[Any]) -> tuple[Select[Any], BindParameter[Any] | None, BindParameter[Any] | None]:
    """A statement for some of the rows of ``statement``, and the offset and limit of ``statement`` itself."""
    start, most = statement._offset_clause, statement._limit_clause
    piece = statement.limit(bindparam("piece_size")).offset(bindparam("piece_start"))
    return (
        piece,
        start if isinstance(start, BindParameter) else None,
        most if isinstance(most, BindParameter) else None,
    )


def drive(unit: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that must not suspend to its end, here and now.

    Raises StoreFunctionSuspended if it awaits anything but its transaction.
    """
    # A function that awaits nothing but its transaction never suspends: one step brings it to its end.
    try:
        unit.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    unit.close()
    raise StoreFunctionSuspended(f"{unit!r} awaited something other than its transaction")
