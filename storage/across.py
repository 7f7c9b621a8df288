"""Looks at all tenants at once, for work that begins by finding whose turn it is. They give places and counts, never
content.

On SQLite a look is its statement. On Postgres, where the server's role sees one tenant at a time, it is a function of
the tables' owner with that statement in it (``migrations/``; a test holds the two equal).
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import Delete, Select, TextClause, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.compiler import SQLCompiler

from layerlore.storage.transaction import Row, Tx

_POSTGRES = postgresql.asyncpg.dialect()  # type: ignore[no-untyped-call]
Columns = tuple[tuple[str, str], ...]
LOOKS: dict[str, "Look"] = {}
"""All there are, by the names of their functions."""


class Look:
    """``columns``: name and type on Postgres of what it gives (none: how many rows a deletion removed)."""

    def __init__(self, function: str, statement: Select[Any] | Delete, columns: Columns = ()) -> None:
        self.function = function
        self.statement = statement
        self.columns = columns
        LOOKS[function] = self

    async def rows(self, tx: Tx, **values: Any) -> Sequence[Row]:
        """What it finds."""
        return await tx.all(self.statement if tx.dialect == "sqlite" else self._call, **values)

    async def count(self, tx: Tx, **values: Any) -> int:
        """How many rows a deletion removed."""
        if tx.dialect == "sqlite":
            return await tx.run(self.statement, **values)
        row = await tx.one(self._call, **values)
        return row[0] if row else 0

    @cached_property
    def _call(self) -> TextClause:
        names = ", ".join(f":{name}" for name in _as_function(self.statement)[0])
        return text(f"SELECT * FROM {self.function}({names})")  # noqa: S608 - constants

    @property
    def definition(self) -> str:
        """What makes the function on Postgres. It runs as the tables' owner, to whom their policies open in it."""
        parameters, body = _as_function(self.statement)
        columns = self.columns
        if not columns:
            columns = (("count", "bigint"),)
            body = f"WITH gone AS ({body} RETURNING 1) SELECT count(*) FROM gone"  # noqa: S608 - constants
        takes = ", ".join(f"{name} {type_}" for name, type_ in parameters.items())
        gives = ", ".join(f"{name} {type_}" for name, type_ in columns)
        return (
            f"CREATE FUNCTION {self.function}({takes}) RETURNS TABLE ({gives}) LANGUAGE plpgsql SECURITY DEFINER\n"
            "AS $body$\n#variable_conflict use_column\nBEGIN\n"
            "PERFORM set_config('layerlore.across', 'yes', true);\n"
            f"RETURN QUERY {body};\n"
            "PERFORM set_config('layerlore.across', '', true);\n"
            "END\n$body$;"
        )


def _as_function(statement: Select[Any] | Delete) -> tuple[dict[str, str], str]:
    """The parameters with their types, and the statement with ``$1`` ... for them; its own values are written out."""
    result = statement.compile(dialect=_POSTGRES)
    assert isinstance(result, SQLCompiler)
    parameters: dict[str, str] = {}
    places: dict[str, str] = {}
    for place, name in enumerate(result.positiontup or (), 1):
        bind = result.binds[name]
        if bind.required:
            parameters.setdefault(name, str(bind.type.compile(dialect=_POSTGRES)))
            places[f"${place}"] = f"${list(parameters).index(name) + 1}"
        else:
            value = result.params[name]
            places[f"${place}"] = str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
    return parameters, re.sub(r"\$\d+", lambda found: places[found[0]], str(result))
