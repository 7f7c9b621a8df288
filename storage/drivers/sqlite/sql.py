"""How SQLite writes what the databases write differently."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy.dialects import sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from layerlore.storage.core.row_ids import Packed
from layerlore.storage.core.statements import ByteLength, IsAnyOf, JsonItems, JsonText, Upsert

DIALECT = sqlite.dialect()


def sqlite_arguments(values: Sequence[Any]) -> list[Any]:
    """Lists become JSON text for json_each; everything else goes as it is."""
    return [json.dumps(value) if isinstance(value, list) else value for value in values]


@compiles(IsAnyOf, "sqlite")
def _any_of(element: IsAnyOf, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.column, **options)
    values = compiler.process(element.values, **options)
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


@compiles(ByteLength, "sqlite")
def _byte_length(element: ByteLength, compiler: SQLCompiler, **options: Any) -> str:
    return f"length(CAST({compiler.process(element.column, **options)} AS BLOB))"


@compiles(Packed, "sqlite")
def _packed(element: Packed, compiler: SQLCompiler, **options: Any) -> str:
    return f"group_concat({compiler.process(element.column, **options)})"
