"""Data of the installation as a whole, queries that look at all tenants at once, and reads of each cluster; one that is
away does not block the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from sqlalchemy import BigInteger, Delete, Select, Text, bindparam, cast, delete, select

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.statements import insert_or_update
from layerlore.storage.core.tables import installation
from layerlore.storage.core.transaction import Database, P, Row, StoreFunction, T, Tx

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
    """Write something that needs room, to find out whether anything can be written; ``remove_trial`` removes it."""
    await tx.run(_PUT_TRIAL, value="x" * _TRIAL_CHARS)


async def remove_trial(tx: Tx) -> None:
    await tx.run(_REMOVE_TRIAL)


async def owe_rewrite(tx: Tx) -> None:
    """Note that something was erased, where bytes of it may be left in the file until that is rewritten."""
    if tx.backend.keeps_erased_bytes:
        await tx.run(_OWE_REWRITE)


async def rewrite_owed(tx: Tx) -> str | None:
    """How often something was erased since the file was last rewritten; None: the file holds nothing of it."""
    owed: str | None = await tx.scalar(_REWRITE_OWED)
    return owed


async def rewritten(tx: Tx, owed: str) -> None:
    """Note that the file was rewritten after ``rewrite_owed`` returned this number."""
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


@dataclass(frozen=True, slots=True)
class ClusterAnswers(Generic[T]):
    """``found``: what each cluster answered, home first, and None for one that is away; ``away``: why, in a sentence each
    that names the shard."""

    found: list[T | None]
    away: list[str]

    @property
    def there(self) -> list[T]:
        return [each for each in self.found if each is not None]


async def read_each(
    database: Database, function: StoreFunction[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> ClusterAnswers[T]:
    """Read from each cluster. Raises StorageUnavailable if the home cluster is away."""
    home, *shards = database.clusters
    found: list[T | None] = [await home.read_installation(function, *args, **kwargs)]
    away: list[str] = []
    for shard in shards:
        try:
            found.append(await shard.read_installation(function, *args, **kwargs))
        except StorageUnavailable as error:
            found.append(None)
            away.append(str(error))
    return ClusterAnswers(found, away)
