"""Row ids by the thousand: one value on their way out of the database instead of a row for each."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

RowIdArray: TypeAlias = NDArray[np.int64]


class Packed(ColumnElement[Any]):
    """An aggregate of integers that ``unpacked`` reads: digits and commas on SQLite, 8 bytes each on Postgres."""

    inherit_cache = True
    type = Text()

    def __init__(self, column: ColumnElement[int]) -> None:
        self.column = column


@compiles(Packed, "sqlite")
def _packed_sqlite(element: Packed, compiler: SQLCompiler, **options: Any) -> str:
    return f"group_concat({compiler.process(element.column, **options)})"


@compiles(Packed, "postgresql")
def _packed_postgres(element: Packed, compiler: SQLCompiler, **options: Any) -> str:
    return f"string_agg(int8send({compiler.process(element.column, **options)}), '')"


def unpacked(value: str | bytes | None) -> RowIdArray:
    """What an aggregate of either kind holds, ascending; None is what it gives for no rows."""
    if not value:
        return np.empty(0, np.int64)
    found = np.fromstring(value, np.int64, sep=",") if isinstance(value, str) else np.frombuffer(value, ">i8")
    return np.sort(found.astype(np.int64, copy=False))


def listed(row_ids: Sequence[int] | RowIdArray) -> list[int]:
    """Plain integers, as a statement's list parameter takes them."""
    ids: list[int] = np.asarray(row_ids, np.int64).tolist()
    return ids
