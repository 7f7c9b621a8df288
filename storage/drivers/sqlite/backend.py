"""How SQLite differs: a ``Backend``, and the SQL that only SQLite writes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Delete, Select, bindparam, func, select, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from layerlore.storage.core.index_rows import PackedIntegers
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.statements import (
    ByteLength,
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
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite import search as sqlite_search

name = "sqlite"
search: SearchIndex = sqlite_search
vectors: VectorIndex = sqlite_search
commits_in_id_order = True
keeps_erased_bytes = True

# SQLite has no settings of a transaction, so the trigger itself goes until the rows are deleted.
_OPEN_JOURNAL = text("DROP TRIGGER journal_no_delete")
_CLOSE_JOURNAL = text(
    "CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal BEGIN\n"
    "    SELECT RAISE(ABORT, 'the journal is only appended to');\n"
    "END"
)
_BYTES = select(func.coalesce(func.sum(stored_bytes.c.bytes), 0)).where(
    stored_bytes.c.tenant_id == bindparam("tenant_id"), stored_bytes.c.resource_id == bindparam("resource_id")
)


def describe() -> Json:
    able = driver.abilities()
    return {
        "sqlite": able.version,
        "module": able.module,
        "vector_extension": able.vector_extension or "none",
        "erases_words_at_once": able.fts5_secure_delete,
        "safe_for_several_processes": able.wal_safe,
    }


def warnings() -> list[str]:
    if driver.abilities().wal_safe:
        return []
    return [
        f"SQLite {driver.driver.sqlite_version} can corrupt a file that several processes write; "
        "use one process, or a Python for which pysqlite3 has a wheel"
    ]


async def rows_of_all_tenants(
    tx: Tx, function: str, statement: Select[Any] | Delete, values: Mapping[str, Any]
) -> Sequence[Row]:
    return await tx.all(statement, **values)


async def delete_of_all_tenants(
    tx: Tx, function: str, statement: Select[Any] | Delete, values: Mapping[str, Any]
) -> int:
    return await tx.run(statement, **values)


async def may_change_journal(tx: Tx, act: Act) -> bool:
    """Every process that may open the file may."""
    return True


async def open_journal(tx: Tx) -> None:
    await tx.run(_OPEN_JOURNAL)


async def close_journal(tx: Tx) -> None:
    await tx.run(_CLOSE_JOURNAL)


async def bytes_before(tx: Tx, owner: Scope) -> int:
    return int(await tx.scalar(_BYTES, tenant_id=owner.tenant_id, resource_id=owner.resource_id) or 0)


async def bytes_added(tx: Tx, owner: Scope, before: int) -> int:
    """SQLite has one writer at a time, so no other writer's bytes are among them."""
    return await bytes_before(tx, owner) - before


async def wait_for_count(tx: Tx, owner: Scope) -> None:
    """There is one writer at a time."""


async def fold_bytes(tx: Tx, owner: Scope) -> None:
    """There is one row for each resource."""


DIALECT = sqlite.dialect()


def sqlite_arguments(values: Sequence[Any]) -> list[Any]:
    """Lists become JSON text for json_each; everything else goes as it is."""
    return [json.dumps(value) if isinstance(value, list) else value for value in values]


@compiles(IsAnyOf, "sqlite")
def _any_of(element: IsAnyOf, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    values = compiler.process(element.values, **options)
    # One JSON text for the whole list: the statement is the same for any number of values.
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 - compiled names, no input


@compiles(Upsert, "sqlite")
def _upsert(element: Upsert, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.written_with(sqlite.insert), **options)


@compiles(JsonItems, "sqlite")
def _json_items(element: JsonItems, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(JsonText, "sqlite")
def _json_text(element: JsonText, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_extract({compiler.process(element.column, **options)}, '$[{element.place}]')"


@compiles(WithIds, "sqlite")
def _with_ids(element: WithIds, compiler: SQLCompiler, **options: Any) -> str:
    # With a sign no index serves the column.
    return f"+{compiler.process(element.column, **options)}"


@compiles(VectorOf, "sqlite")
def _vector_of(element: VectorOf, compiler: SQLCompiler, **options: Any) -> str:
    return "1"


@compiles(RowPlace, "sqlite")
def _row_place(element: RowPlace, compiler: SQLCompiler, **options: Any) -> str:
    return f"{element.table.name}.rowid"


@compiles(ByteLength, "sqlite")
def _byte_length(element: ByteLength, compiler: SQLCompiler, **options: Any) -> str:
    # length() counts the characters of a text, but the bytes of a BLOB.
    return f"length(CAST({compiler.process(element.column, **options)} AS BLOB))"


@compiles(PackedIntegers, "sqlite")
def _packed(element: PackedIntegers, compiler: SQLCompiler, **options: Any) -> str:
    return f"group_concat({compiler.process(element.column, **options)})"
