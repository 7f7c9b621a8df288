"""How Postgres differs: a ``Backend``, and the SQL that only Postgres writes."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_args

from sqlalchemy import BigInteger, Delete, Select, Text, TextClause, bindparam, func, literal, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler, TypeCompiler

from layerlore.storage.core import linear_re
from layerlore.storage.core.index_rows import PackedIntegers
from layerlore.storage.core.installation import Look
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.statements import (
    WRITES,
    ByteLength,
    BytewiseText,
    IsAnyOf,
    JsonItems,
    JsonText,
    RowPlace,
    Upsert,
    VectorOf,
    WithIds,
)
from layerlore.storage.core.tables import stored_bytes
from layerlore.storage.core.transaction import Act, Row, SearchIndex, Tx, VectorIndex
from layerlore.storage.drivers.postgres import search as postgres_search

DIALECT = postgresql.asyncpg.dialect()  # type: ignore[no-untyped-call]


@compiles(IsAnyOf, "postgresql")
def _any_of(element: IsAnyOf, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    values = compiler.process(element.values, **options)
    # One array for the whole list: the statement is the same for any number of values.
    return f"{column} = ANY({values})"


@compiles(Upsert, "postgresql")
def _upsert(element: Upsert, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.written_with(postgresql.insert), **options)


@compiles(JsonItems, "postgresql")
def _json_items(element: JsonItems, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements(CAST({compiler.process(element.clauses, **options)} AS json))"


@compiles(JsonText, "postgresql")
def _json_text(element: JsonText, compiler: SQLCompiler, **options: Any) -> str:
    return f"({compiler.process(element.column, **options)} ->> {element.place})"


@compiles(WithIds, "postgresql")
def _with_ids(element: WithIds, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.column, **options)


@compiles(VectorOf, "postgresql")
def _vector_of(element: VectorOf, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.is_same, **options)


@compiles(RowPlace, "postgresql")
def _row_place(element: RowPlace, compiler: SQLCompiler, **options: Any) -> str:
    return f"{element.table.name}.ctid"


@compiles(ByteLength, "postgresql")
def _byte_length(element: ByteLength, compiler: SQLCompiler, **options: Any) -> str:
    return f"octet_length({compiler.process(element.column, **options)})"


@compiles(PackedIntegers, "postgresql")
def _packed(element: PackedIntegers, compiler: SQLCompiler, **options: Any) -> str:
    # int8send gives 8 bytes, the highest first, which numpy reads without parsing text.
    return f"string_agg(int8send({compiler.process(element.column, **options)}), '')"


@compiles(BytewiseText, "postgresql")
def _bytewise(element: BytewiseText, compiler: TypeCompiler, **options: Any) -> str:
    return 'TEXT COLLATE "C"'


name = "postgres"
search: SearchIndex = postgres_search
vectors: VectorIndex = postgres_search
commits_in_id_order = False
keeps_erased_bytes = False
"""Autovacuum frees such space for new rows."""

# Also a role that was granted more sees nothing, if only the table's owner may see its rows.

_MAY = {
    act: select(func.has_table_privilege("journal", act) & ~func.row_security_active("journal"))
    for act in get_args(Act)
}
_OPEN_JOURNAL = text("SELECT set_config('layerlore.prune', 'on', true)")

# Others may commit between two looks, so each transaction counts in a part of its own.
_PLACE = linear_re.compile(r"\$\d{1,5}")
_OWN_BYTES = select(func.coalesce(func.sum(stored_bytes.c.bytes), 0)).where(
    stored_bytes.c.tenant_id == bindparam("tenant_id"),
    stored_bytes.c.resource_id == bindparam("resource_id"),
    stored_bytes.c.part == func.txid_current(),
)
# A lock of this tenant alone, so that writers of other tenants count at the same time.
_ALONE = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("tenant_id", type_=Text), 12)))
_FOLD_BYTES = select(
    func.layerlore_fold_bytes(
        bindparam("tenant_id", type_=Text),
        bindparam("resource_id", type_=Text),
        func.txid_current(),
        literal(0, BigInteger),
    )
).execution_options(**{WRITES: True})


def describe() -> Json:
    return {}


def warnings() -> list[str]:
    return []


async def rows_of_all_tenants(
    tx: Tx, function: str, statement: Select[Any] | Delete, values: Mapping[str, Any]
) -> Sequence[Row]:
    return await tx.all(call_of(function, statement), **values)


async def delete_of_all_tenants(
    tx: Tx, function: str, statement: Select[Any] | Delete, values: Mapping[str, Any]
) -> int:
    return int(await tx.scalar(call_of(function, statement), **values) or 0)


async def may_change_journal(tx: Tx, act: Act) -> bool:
    return bool(await tx.scalar(_MAY[act]))


async def open_journal(tx: Tx) -> None:
    await tx.one(_OPEN_JOURNAL)


async def close_journal(tx: Tx) -> None:
    """It closes with the transaction."""


async def bytes_before(tx: Tx, owner: Scope) -> int:
    return 0


async def bytes_added(tx: Tx, owner: Scope, before: int) -> int:
    return int(await tx.scalar(_OWN_BYTES, tenant_id=owner.tenant_id, resource_id=owner.resource_id))


async def wait_for_count(tx: Tx, owner: Scope) -> None:
    await tx.one(_ALONE, tenant_id=owner.tenant_id)


async def fold_bytes(tx: Tx, owner: Scope) -> None:
    # The row of the whole tenant names no resource.
    for resource in (owner.resource_id, ""):
        await tx.one(_FOLD_BYTES, tenant_id=owner.tenant_id, resource_id=resource)


@cache
def call_of(function: str, statement: Select[Any] | Delete) -> TextClause:
    """The statement that calls the function, with the parameters of the look's own statement."""
    names = ", ".join(f":{name}" for name in _as_function(statement)[0])
    call = text(f"SELECT * FROM {function}({names})")  # noqa: S608 - constants
    return call.execution_options(**{WRITES: isinstance(statement, Delete)})


def definition(look: Look) -> str:
    """The statement that makes the function. It runs as the tables' owner, to whom their policies open in it."""
    parameters, body = _as_function(look.statement)
    columns = look.columns
    if not columns:
        columns = (("count", "bigint"),)
        body = f"WITH gone AS ({body} RETURNING 1) SELECT count(*) FROM gone"  # noqa: S608 - constants
    takes = ", ".join(f"{name} {type_}" for name, type_ in parameters.items())
    gives = ", ".join(f"{name} {type_}" for name, type_ in columns)
    # The answer's columns have the names of the table's: a bare name has to mean the table's.
    return (
        f"CREATE FUNCTION {look.function}({takes}) RETURNS TABLE ({gives}) LANGUAGE plpgsql SECURITY DEFINER\n"
        "AS $body$\n#variable_conflict use_column\nBEGIN\n"
        "PERFORM set_config('layerlore.across', 'yes', true);\n"
        f"RETURN QUERY {body};\n"
        "PERFORM set_config('layerlore.across', '', true);\n"
        "END\n$body$;"
    )


def _as_function(statement: Select[Any] | Delete) -> tuple[dict[str, str], str]:
    """The parameters with their types, and the statement with ``$1`` ... for them; its own values are written out."""
    result = statement.compile(dialect=DIALECT)
    assert isinstance(result, SQLCompiler)
    parameters: dict[str, str] = {}
    places: dict[str, str] = {}
    for place, name in enumerate(result.positiontup or (), 1):
        bind = result.binds[name]
        if bind.required:
            parameters.setdefault(name, str(bind.type.compile(dialect=DIALECT)))
            places[f"${place}"] = f"${list(parameters).index(name) + 1}"
        else:
            value = result.params[name]
            places[f"${place}"] = str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
    return parameters, _PLACE.sub(lambda found: places[found[0]], str(result))
