"""How much a scope holds."""

from dataclasses import dataclass

from sqlalchemy import func, select

from memstrata.storage.records import Scope
from memstrata.storage.scoping import in_scope, of_scope
from memstrata.storage.tables import deletions, threads
from memstrata.storage.transaction import Tx


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


async def of_scope_now(tx: Tx, scope: Scope) -> Counts:
    """Live threads, their messages and tokens, and the deletes that can be undone."""
    live = await tx.one(_LIVE, **of_scope(scope))
    deletes = await tx.one(_DELETES, **of_scope(scope))
    assert live is not None
    assert deletes is not None
    return Counts(int(live[0]), int(live[1]), int(live[2]), int(deletes[0]))
