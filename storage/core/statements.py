"""Statements are written once in SQLAlchemy Core, compiled once for each database, and run straight on its driver.

Each difference between the databases is an element here. Each driver says how its database writes it
(``drivers/*/sql.py``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Delete,
    Dialect,
    Executable,
    FromClause,
    Insert,
    Table,
    Text,
    TextClause,
    Update,
    alias,
    bindparam,
)
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import ARRAY, BigInteger, Boolean, Integer


@dataclass(frozen=True, slots=True)
class CompiledStatement:
    """SQL for one driver, the names of its parameters in order, and the values that the statement itself brings.
    ``writes``: whether it may change rows; ``changes_memory``: rows of a table that answers are made of."""

    sql: str
    names: tuple[str, ...]
    values: Mapping[str, Any]
    writes: bool
    changes_memory: bool = False

    def arguments(self, given: Mapping[str, Any]) -> list[Any]:
        """The driver's positional arguments. Raises KeyError for a parameter that neither side has."""
        return [given[name] if name in given else self.values[name] for name in self.names]


WRITES = "writes"
"""The option of a statement that says whether it changes rows, where its SQL alone does not show that."""

# Contexts show nothing of these tables. A write to any other table may change a context.
_BESIDE_MEMORY = frozenset(
    {
        "api_keys",
        "daily_calls",
        "daily_usage",
        "idempotency",
        "installation",
        "job_turns",
        "jobs",
        "journal",
        "spending",
        "tenant_spending",
        "usage",
    }
)

_compiled: dict[tuple[Executable, Dialect], CompiledStatement] = {}


def compiled(statement: Executable, dialect: Dialect) -> CompiledStatement:
    """Compile a statement, once. Statements are module constants or come from cached functions, never made per call."""
    found = _compiled.get((statement, dialect))
    if found is None:
        assert isinstance(statement, ClauseElement)
        result = statement.compile(dialect=dialect)
        assert isinstance(result, SQLCompiler)
        names = tuple(result.positiontup or ())
        # Values that the statement brings itself. A required one has to come from the caller.
        own = {name: value for name, value in result.params.items() if not result.binds[name].required}
        writes = _writes(statement, result)
        changes_memory = writes and _find_table(statement, result) not in _BESIDE_MEMORY
        found = _compiled[statement, dialect] = CompiledStatement(str(result), names, own, writes, changes_memory)
    return found


def _find_table(statement: Executable, result: SQLCompiler) -> str:
    """The name of the one table that an insert, an update or a deletion changes; "" if it cannot be named."""
    if any(cte.element.is_dml for cte in result.ctes or ()):
        return ""
    if isinstance(statement, Insert | Update | Delete) and isinstance(statement.table, Table):
        return statement.table.name
    return ""


def _writes(statement: Executable, result: SQLCompiler) -> bool:
    known = statement.get_execution_options().get(WRITES)
    if known is not None:
        return bool(known)
    # SQL that was written as text may do anything.
    return statement.is_dml or isinstance(statement, TextClause) or any(cte.element.is_dml for cte in result.ctes or ())


class IsAnyOf(ColumnElement[bool]):
    """``column IN (a list that is one parameter)``."""

    inherit_cache = True
    type = Integer()  # type: ignore[assignment]  # as Boolean, SQLite's compiler would write "... = 1", which no index serves

    def __init__(self, column: ColumnElement[Any], values: BindParameter[Any]) -> None:
        self.column = column
        self.values = values


def parameters(*names: str, prefix: str = "") -> dict[str, BindParameter[Any]]:
    """A parameter for each column, by the column's name. The parameter has the same name behind ``prefix``."""
    return {name: bindparam(f"{prefix}{name}") for name in names}


def any_of(column: ColumnElement[Any], name: str) -> IsAnyOf:
    """Whether the column is among the values of the list parameter ``name`` (of text, or of integers)."""
    of = BigInteger() if isinstance(column.type, BigInteger) else Text()
    return IsAnyOf(column, bindparam(name, type_=ARRAY(of)))


class Upsert(Insert):
    """An insert that changes the row it meets, or leaves that row alone where ``changes`` is None."""

    inherit_cache = False

    def __init__(
        self,
        table: Table,
        values: Mapping[str, Any],
        keys: Sequence[str] = (),
        changes: Mapping[str, Any] | None = None,
        returning: Sequence[ColumnElement[Any]] = (),
    ) -> None:
        super().__init__(table)
        self.target = table
        self.row = values
        self.keys = keys
        self.changes = changes
        self.gives = returning

    def written_with(self, insert: Callable[[Table], Any]) -> Any:
        """Write the statement with a dialect's own ``insert``, which knows ON CONFLICT."""
        put = insert(self.target).values(**self.row)
        if self.changes is None:
            put = put.on_conflict_do_nothing()
        else:
            keys = [self.target.c[name] for name in self.keys]
            put = put.on_conflict_do_update(index_elements=keys, set_=dict(self.changes))
        if self.gives:
            return put.returning(*self.gives)
        return put


def insert_or_ignore(table: Table, values: Mapping[str, Any]) -> Upsert:
    """Insert a row of ``values``, by column; do nothing if it meets a row under any of the table's keys."""
    return Upsert(table, values)


def insert_or_update(
    table: Table,
    values: Mapping[str, Any],
    *,
    keys: Sequence[str],
    changes: Mapping[str, Any],
    returning: Sequence[ColumnElement[Any]] = (),
) -> Upsert:
    """Insert a row of ``values``, by column, or make ``changes`` to the row that has the same values of the columns
    ``keys``. Changes may use the table's columns, and those of ``refused``."""
    return Upsert(table, values, keys, changes, returning)


def refused(table: Table) -> Any:
    """The columns of the row that could not be inserted, for the changes of ``insert_or_update``."""
    # Both databases call the row that could not be inserted "excluded".
    return alias(table, name="excluded").c


class JsonItems(FunctionElement[Any]):
    """The items of the JSON list that a parameter holds, as rows with one column ``value``."""

    inherit_cache = True
    name = "json_items"


def json_items(name: str) -> FromClause:
    """Rows with a column ``value``: the items of the JSON list in the parameter ``name``."""
    return JsonItems(bindparam(name)).table_valued("value", name="items")


class JsonText(ColumnElement[Any]):
    """The item at ``place`` of a JSON list, as text. SQLite gives a number as a number: cast it."""

    inherit_cache = False
    type = Text()

    def __init__(self, column: ColumnElement[Any], place: int) -> None:
        self.column = column
        self.place = place


class WithIds(ColumnElement[Any]):
    """A column in a condition on rows that are named by their ids. Postgres finds them by the tenant and the id. SQLite
    finds them by the id alone, and may not walk an index on the column instead."""

    inherit_cache = True

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.column = column
        self.type = column.type


class VectorOf(ColumnElement[bool]):
    """Whether a row of ``search_vectors`` is a tenant's. On Postgres its key leads with the tenant. On SQLite it hangs on
    the id of its row of ``search_rows``, as the words of the full-text index do, and stores no tenant: always true."""

    inherit_cache = True
    type = Boolean()

    def __init__(self, column: ColumnElement[Any], tenant_id: ColumnElement[Any]) -> None:
        self.is_same = column == tenant_id


class RowPlace(ColumnElement[Any]):
    """Where the database keeps a row of the table: names it for one statement, whatever the table's key is."""

    inherit_cache = True
    type = BigInteger()

    def __init__(self, table: Table) -> None:
        self.table = table


class ByteLength(ColumnElement[int]):
    """How many bytes of UTF-8 a text has."""

    inherit_cache = True
    type = BigInteger()

    def __init__(self, column: ColumnElement[Any]) -> None:
        self.column = column


class BytewiseText(Text):
    """A text that is ordered by its bytes, whatever the database's language."""
