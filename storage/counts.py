"""How much a scope holds."""

from dataclasses import dataclass

from sqlalchemy import func, select

from layerlore.storage.records import Scope
from layerlore.storage.scoping import in_scope, of_scope
from layerlore.storage.tables import deletions, threads
from layerlore.storage.transaction import Tx


@dataclass(frozen=True, slots=True)
class Counts:
    threads: int
    messages: int
    tokens: int
    restorable_deletes: int


_LIVE = select(
    func.count(),
    func.coalesce(func.sum(threads.c.message_count), 0),
    func.coalesce(func.sum(threads.c.token_count), 0),
).where(in_scope(threads), threads.c.deletion_uid.is_(None))
_DELETES = select(func.count()).select_from(deletions).where(in_scope(deletions))


async def live(tx: Tx, scope: Scope) -> tuple[int, int, int]:
    """How many live threads there are, and their messages and tokens."""
    row = await tx.one(_LIVE, **of_scope(scope))
    assert row is not None
    return int(row[0]), int(row[1]), int(row[2])


async def of_scope_now(tx: Tx, scope: Scope) -> Counts:
    """Live threads, their messages and tokens, and the deletes that can be undone."""
    held = await live(tx, scope)
    deletes = await tx.one(_DELETES, **of_scope(scope))
    assert deletes is not None
    return Counts(*held, int(deletes[0]))
