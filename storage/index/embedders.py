"""The agreement between the processes on one database: which embedders are in use, how many dimensions the vectors
under each name have, and which process makes up for vectors that are missing."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from layerlore.storage.core.statements import insert_or_ignore, insert_or_update, refused
from layerlore.storage.core.tables import installation
from layerlore.storage.core.transaction import Tx

_IN_USE = "embedder:"
_LEASE = "vectors-lease:"
_DIMENSION = "dimension:"

_row: dict[str, Any] = {"name": bindparam("name"), "value": bindparam("value")}
_NOTE = insert_or_update(installation, _row, keys=("name",), changes={"value": refused(installation).value})
_ADD = insert_or_ignore(installation, _row)
_named = installation.c.name == bindparam("name")
_VALUE = select(installation.c.value).where(_named)
_UNCHANGED = installation.c.value == bindparam("was")
_CHANGE = update(installation).where(_named, _UNCHANGED).values(value=bindparam("value"))
_DROP = delete(installation).where(_named, _UNCHANGED)
_DROP_ANY = delete(installation).where(_named)
_ALL = select(installation.c.name, installation.c.value).where(installation.c.name.startswith(_IN_USE))


async def note_use(tx: Tx, model: str, now: int) -> None:
    """Note that a process uses an embedder now: to be done before it writes vectors, and now and then while it runs."""
    await tx.run(_NOTE, name=_IN_USE + model, value=str(now))


async def last_used(tx: Tx) -> dict[str, int]:
    """Every embedder that may have vectors, and when one was last noted to use it, in milliseconds since 1970."""
    return {name.removeprefix(_IN_USE): int(value) for name, value in await tx.all(_ALL)}


async def forget_use(tx: Tx, used: Mapping[str, int]) -> None:
    """Forget embedders, but for those that were noted again since ``last_used`` answered this of them."""
    for model, at in used.items():
        if await tx.run(_DROP, name=_IN_USE + model, was=str(at)):
            await tx.run(_DROP_ANY, name=_DIMENSION + model)


async def dimension_of(tx: Tx, model: str) -> int:
    """How many dimensions the vectors stored under a name have; 0 where none were stored yet."""
    return int(await tx.scalar(_VALUE, name=_DIMENSION + model) or 0)


async def agree_on_dimension(tx: Tx, model: str, dimension: int) -> int:
    """How many dimensions the vectors under a name must have, to be asked before they are stored: the first who asks
    decides."""
    agreed = await dimension_of(tx, model)
    if agreed or await tx.run(_ADD, name=_DIMENSION + model, value=str(dimension)):
        return agreed or dimension
    return await dimension_of(tx, model)


async def take_lease(tx: Tx, model: str, holder: str, *, now: int, until: int) -> bool:
    """Take, or prolong, the right to make up for a model's missing vectors. False while another process has it."""
    name, value = _LEASE + model, f"{until} {holder}"
    stored = await tx.scalar(_VALUE, name=name)
    if stored is None:
        return await tx.run(_ADD, name=name, value=value) == 1
    expires, _, owner = stored.partition(" ")
    if owner != holder and int(expires) > now:
        return False
    return await tx.run(_CHANGE, name=name, value=value, was=stored) == 1


async def return_lease(tx: Tx, model: str, holder: str) -> None:
    """Let another process have it, if this one still does."""
    stored = await tx.scalar(_VALUE, name=_LEASE + model)
    if stored is not None and stored.partition(" ")[2] == holder:
        await tx.run(_DROP, name=_LEASE + model, was=stored)
