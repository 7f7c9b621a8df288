"""Statements are written once in SQLAlchemy Core, compiled once for each dialect, and run straight on the driver."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import BindParameter, ColumnElement, Executable, bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.types import ARRAY, BigInteger, Integer, Text

Dialect = Literal["sqlite", "postgres"]

_DIALECTS = {
    "sqlite": sqlite.dialect(),
    "postgres": postgresql.asyncpg.dialect(),  # type: ignore[no-untyped-call]
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """SQL for one driver, the names of its parameters in order, and the values that the statement itself brings."""

    sql: str
    names: tuple[str, ...]
    values: Mapping[str, Any]

    def arguments(self, given: Mapping[str, Any]) -> list[Any]:
        """The driver's positional arguments. Raises KeyError for a parameter that neither side has."""
        return [given[name] if name in given else self.values[name] for name in self.names]


_compiled: dict[tuple[Executable, Dialect], Compiled] = {}


def compiled(statement: Executable, dialect: Dialect) -> Compiled:
    """Compile a statement, once. Statements are module constants or come from cached functions, never made per call."""
    found = _compiled.get((statement, dialect))
    if found is None:
        assert isinstance(statement, ClauseElement)
        result = statement.compile(dialect=_DIALECTS[dialect])
        assert isinstance(result, SQLCompiler)
        names = tuple(result.positiontup or ())
        own = {name: value for name, value in result.params.items() if not result.binds[name].required}
        found = _compiled[statement, dialect] = Compiled(str(result), names, own)
    return found


class IsAnyOf(ColumnElement[bool]):
    """``column IN (a list that is one parameter)``: json_each on SQLite, = ANY on Postgres."""

    inherit_cache = True
    type = Integer()  # type: ignore[assignment]  # as Boolean, SQLite's compiler would write "... = 1", which no index serves

    def __init__(self, column: ColumnElement[Any], values: BindParameter[Any]) -> None:
        self.column = column
        self.values = values


def any_of(column: ColumnElement[Any], name: str) -> IsAnyOf:
    """Whether the column is among the values of the list parameter ``name`` (of text, or of integers)."""
    of = BigInteger() if isinstance(column.type, BigInteger) else Text()
    return IsAnyOf(column, bindparam(name, type_=ARRAY(of)))


@compiles(IsAnyOf, "sqlite")
def _any_of_sqlite(element: IsAnyOf, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    values = compiler.process(element.values, **options)
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 - compiled names, no input


@compiles(IsAnyOf, "postgresql")
def _any_of_postgres(element: IsAnyOf, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    values = compiler.process(element.values, **options)
    return f"{column} = ANY({values})"


def sqlite_arguments(values: Sequence[Any]) -> list[Any]:
    """Lists become JSON text for json_each; everything else goes as it is."""
    return [json.dumps(value) if isinstance(value, list) else value for value in values]
