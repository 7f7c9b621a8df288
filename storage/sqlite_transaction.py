"""A SQLite transaction as store functions see it, and the one hop that runs a whole function in it."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Executable

from layerlore.storage import sqlite_driver
from layerlore.storage.records import Scope
from layerlore.storage.statements import Dialect, compiled, sqlite_arguments
from layerlore.storage.transaction import Row, StoreFunctionSuspended

T = TypeVar("T")


class SqliteTx:
    """Runs statements at once, in the thread that owns the connection: its methods never suspend."""

    dialect: Dialect = "sqlite"

    def __init__(self, connection: sqlite_driver.Connection) -> None:
        self._connection = connection

    def _execute(self, statement: Executable, values: Mapping[str, Any]) -> Any:
        sql = compiled(statement, "sqlite")
        return self._connection.execute(sql.sql, sqlite_arguments(sql.arguments(values)))

    async def all(self, statement: Executable, /, **values: Any) -> Sequence[Row]:
        rows: Sequence[Row] = self._execute(statement, values).fetchall()
        return rows

    async def one(self, statement: Executable, /, **values: Any) -> Row | None:
        rows: Sequence[Row] = self._execute(statement, values).fetchall()
        return rows[0] if rows else None

    async def run(self, statement: Executable, /, **values: Any) -> int:
        changed: int = self._execute(statement, values).rowcount
        return changed

    async def many(self, statement: Executable, rows: Sequence[Mapping[str, Any]], /) -> None:
        sql = compiled(statement, "sqlite")
        self._connection.executemany(sql.sql, [sqlite_arguments(sql.arguments(row)) for row in rows])

    async def enter(self, scope: Scope) -> None:
        """SQLite has no second line that would have to know."""


def drive(unit: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that must not suspend to its end, here and now.

    Raises StoreFunctionSuspended if it awaits anything but its transaction.
    """
    try:
        unit.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    unit.close()
    raise StoreFunctionSuspended(f"{unit!r} awaited something other than its transaction")
