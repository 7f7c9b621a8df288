"""A SQLite file of another program, which is read and never changed."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Json
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.file import refuse_what_is_no_file

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
            # The schema of another program may call functions: only harmless ones may run.
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
