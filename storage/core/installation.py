"""Data of the installation as a whole, and queries that look at all tenants at once."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Delete, Select, Text, bindparam, cast, delete, select

from layerlore.storage.core.statements import insert_or_update
from layerlore.storage.core.tables import installation
from layerlore.storage.core.transaction import Row, Tx

_HMAC_KEY = select(installation.c.value).where(installation.c.name == "hmac_key")
# Counted, so that what is erased while the file is being rewritten stays owed.
_OWE_REWRITE = insert_or_update(
    installation,
    {"name": "rewrite_owed", "value": "1"},
    keys=("name",),
    changes={"value": cast(cast(installation.c.value, BigInteger) + 1, Text)},
)
# Longer than any page: a small row may still fit into a free page of a full disk.
_TRIAL_CHARS = 65_536
_PUT_TRIAL = insert_or_update(
    installation,
    {"name": "trial", "value": bindparam("value")},
    keys=("name",),
    changes={"value": bindparam("value")},
)
_REMOVE_TRIAL = delete(installation).where(installation.c.name == "trial")
_REWRITE_OWED = select(installation.c.value).where(installation.c.name == "rewrite_owed")
# The count has changed if something was erased during the rewrite: then the file still owes one.
_REWRITTEN = delete(installation).where(
    installation.c.name == "rewrite_owed", installation.c.value == bindparam("owed")
)


async def hmac_key(tx: Tx) -> bytes:
    """The installation's secret: marks of masked secrets and fingerprints of requests are made with it."""
    key = await tx.scalar(_HMAC_KEY)
    assert key is not None, "the first migration writes the key"
    return bytes.fromhex(key)


async def put_trial(tx: Tx) -> None:
    """Write something that needs room, to find out whether anything can be written; for ``remove_trial`` afterwards."""
    await tx.run(_PUT_TRIAL, value="x" * _TRIAL_CHARS)


async def remove_trial(tx: Tx) -> None:
    await tx.run(_REMOVE_TRIAL)


async def owe_rewrite(tx: Tx) -> None:
    """Note that something was erased, where bytes of it may be left in the file until that is rewritten."""
    if tx.backend.keeps_erased_bytes:
        await tx.run(_OWE_REWRITE)


async def rewrite_owed(tx: Tx) -> str | None:
    """How often something was erased since the file was last rewritten; None: it holds nothing of it."""
    owed: str | None = await tx.scalar(_REWRITE_OWED)
    return owed


async def rewritten(tx: Tx, owed: str) -> None:
    """The file was rewritten after ``rewrite_owed`` answered this."""
    await tx.run(_REWRITTEN, owed=owed)


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
        """Its findings."""
        return await tx.backend.rows_of_all_tenants(tx, self.function, self.statement, values)

    async def count(self, tx: Tx, **values: Any) -> int:
        """How many rows a deletion removed."""
        return await tx.backend.delete_of_all_tenants(tx, self.function, self.statement, values)
