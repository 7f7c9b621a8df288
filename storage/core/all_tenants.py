"""Looks at all tenants at once, for work that begins by finding whose turn it is. They give places and counts, never
content.

A database that shows a transaction one tenant at a time keeps each look as a function of the tables' owner.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Delete, Select

from layerlore.storage.core.transaction import Row, Tx

Columns = tuple[tuple[str, str], ...]
LOOKS: dict[str, "Look"] = {}
"""Every look, by the name of its function."""


class Look:
    """``columns``: name and SQL type of what it gives (none: how many rows a deletion removed)."""

    def __init__(self, function: str, statement: Select[Any] | Delete, columns: Columns = ()) -> None:
        self.function = function
        self.statement = statement
        self.columns = columns
        LOOKS[function] = self

    async def rows(self, tx: Tx, **values: Any) -> Sequence[Row]:
        """What it finds."""
        return await tx.backend.rows_of_all_tenants(tx, self.function, self.statement, values)

    async def count(self, tx: Tx, **values: Any) -> int:
        """How many rows a deletion removed."""
        return await tx.backend.delete_of_all_tenants(tx, self.function, self.statement, values)
