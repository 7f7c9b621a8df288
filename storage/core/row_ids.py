"""Row ids by the thousand: one value on their way out of the database instead of a row for each."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Text

RowIdArray: TypeAlias = NDArray[np.int64]


class Packed(ColumnElement[Any]):
    """An aggregate of integers that ``unpacked`` reads: digits and commas as text, or 8 bytes each, the highest first."""

    inherit_cache = True
    type = Text()

    def __init__(self, column: ColumnElement[int]) -> None:
        self.column = column


def unpacked(value: str | bytes | None) -> RowIdArray:
    """What an aggregate of either kind holds, ascending; None is what it gives for no rows."""
    if not value:
        return np.empty(0, np.int64)
    found = np.fromstring(value, np.int64, sep=",") if isinstance(value, str) else np.frombuffer(value, ">i8")
    return np.sort(found.astype(np.int64, copy=False))


def to_list(row_ids: Sequence[int] | RowIdArray) -> list[int]:
    """Plain integers, as a statement's list parameter takes them."""
    ids: list[int] = np.asarray(row_ids, np.int64).tolist()
    return ids


def sort_distinct(row_ids: RowIdArray) -> RowIdArray:
    """Each of these once, ascending; ``np.unique`` takes four times as long."""
    ordered = np.sort(row_ids, axis=None)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered
