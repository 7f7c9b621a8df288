"""Pages of rows in the order of some columns, each continued behind the last row of the one before."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, tuple_


def behind(columns: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    """Rows behind the one whose values ``after`` gives."""
    return tuple_(*columns) > tuple_(*(bindparam(f"after_{each.key}", type_=each.type) for each in columns))


def after(of: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the columns, by name, in the row that a page is to follow."""
    return {f"after_{name}": value for name, value in of.items()}
