"""Pages of rows in the order of some columns, each continued behind the last row of the one before, and none so long that
its texts fill the memory."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Executable, bindparam, tuple_

from layerlore.storage.core.transaction import Row, Tx

T = TypeVar("T")

READ_CHARS = 4 * 1024 * 1024
"""Of the texts that are read for one page."""


def behind(columns: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    """Rows behind the one whose values ``after`` gives."""
    return tuple_(*columns) > tuple_(*(bindparam(f"after_{each.key}", type_=each.type) for each in columns))


def after(of: Mapping[str, T]) -> dict[str, T]:
    """The values of the columns, by name, in the row that a page is to follow."""
    return {f"after_{name}": value for name, value in of.items()}


async def some(tx: Tx, statement: Executable, /, **values: Any) -> tuple[list[Row], bool]:
    """The first rows of an answer, at least one, and whether reading stopped before its end since they were long."""
    found: list[Row] = []
    left, stopped = READ_CHARS, False

    def take(row: Row) -> bool:
        nonlocal left, stopped
        if left < 0:
            stopped = True
            return False
        found.append(row)
        left -= sum(len(value) for value in row if isinstance(value, str))
        return True

    await tx.each(statement, take, **values)
    return found, stopped
