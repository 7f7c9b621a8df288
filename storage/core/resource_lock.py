"""The lock of a resource: who changes what belongs to no thread (its profile, its entries) holds it.

Who also locks a thread does so first.
"""

from sqlalchemy import bindparam, select

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread
from layerlore.storage.core.statements import insert_or_update
from layerlore.storage.core.tables import SCOPE, jobs, resources
from layerlore.storage.core.transaction import Tx

# It changes nothing but holds the row, which is made if it is absent.
_HOLD = insert_or_update(
    resources,
    {**{name: bindparam(name) for name in SCOPE}, "next_event_seq": 1},
    keys=SCOPE,
    changes={"next_event_seq": resources.c.next_event_seq},
)


async def hold(tx: Tx, scope: Scope) -> None:
    """Hold the resource until the transaction ends."""
    await tx.run(_HOLD, **of_scope(scope))


_LOCK = select(resources.c.next_event_seq).where(in_scope(resources)).with_for_update()


async def lock(tx: Tx, scope: Scope) -> bool:
    """Hold the resource until the transaction ends if it is known, and make none. Returns whether it is known: one
    of which nothing was written, or which was erased, is not."""
    return await tx.one(_LOCK, **of_scope(scope)) is not None


_JOBS = select(jobs.c.kind).where(in_thread(jobs)).with_for_update()


async def still_known(tx: Tx, scope: Scope, thread_uid: str) -> bool:
    """For who worked on a job of a thread: whether the job is there, or anything of the resource, which was not erased
    then; holds that."""
    return bool(await tx.all(_JOBS, **of_thread(scope, thread_uid))) or await lock(tx, scope)
