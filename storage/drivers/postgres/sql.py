"""How Postgres writes what the databases write differently."""

from typing import Any

from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler, TypeCompiler

from layerlore.storage.core.row_ids import Packed
from layerlore.storage.core.statements import ByteLength, BytewiseText, IsAnyOf, JsonItems, JsonText, Upsert

DIALECT = postgresql.asyncpg.dialect()  # type: ignore[no-untyped-call]


@compiles(IsAnyOf, "postgresql")
def _any_of(element: IsAnyOf, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    values = compiler.process(element.values, **options)
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


@compiles(ByteLength, "postgresql")
def _byte_length(element: ByteLength, compiler: SQLCompiler, **options: Any) -> str:
    return f"octet_length({compiler.process(element.column, **options)})"


@compiles(Packed, "postgresql")
def _packed(element: Packed, compiler: SQLCompiler, **options: Any) -> str:
    return f"string_agg(int8send({compiler.process(element.column, **options)}), '')"


@compiles(BytewiseText, "postgresql")
def _bytewise(element: BytewiseText, compiler: TypeCompiler, **options: Any) -> str:
    return 'TEXT COLLATE "C"'
