"""What becomes of jobs when messages that they took in, or were to take in, are deleted."""

from sqlalchemy import and_, bindparam, case, delete, update

from layerlore.storage.jobs import Kind
from layerlore.storage.records import Scope
from layerlore.storage.scoping import in_scope, in_thread, of_scope, of_thread
from layerlore.storage.tables import jobs
from layerlore.storage.transaction import Tx

_this = and_(in_thread(jobs), jobs.c.kind == bindparam("of_kind"))
_SET_BACK = (
    update(jobs)
    .where(_this, jobs.c.done_seq > bindparam("upto_seq"))
    .values(
        done_seq=bindparam("upto_seq"),
        # What waits anyway keeps its time.
        due_at=case((jobs.c.requested_seq > jobs.c.done_seq, jobs.c.due_at), else_=bindparam("new_due_at")),
        updated_at=bindparam("now"),
    )
)


async def set_back(tx: Tx, scope: Scope, thread_uid: str, kind: Kind, upto: int, *, due_at: int, now: int) -> None:
    """Let a job that was done count as done up to a seq only: what is behind is due again. A dead job stays dead."""
    of = of_thread(scope, thread_uid)
    await tx.run(_SET_BACK, **of, of_kind=kind, upto_seq=upto, new_due_at=due_at, now=now)


_FENCE_OFF = (
    update(jobs)
    .where(in_scope(jobs), jobs.c.holder.is_not(None))
    .values(epoch=jobs.c.epoch + 1, holder=None, lease_until=None, updated_at=bindparam("now"))
)


async def fence_off(tx: Tx, scope: Scope, *, now: int) -> int:
    """Take all running jobs of a scope from who holds them: nothing of what they think is stored, and somebody begins
    anew. The transaction holds the resource, so that no two of them wait for each other. Counts them."""
    return await tx.run(_FENCE_OFF, **of_scope(scope), now=now)


_FORGET_THREAD = delete(jobs).where(in_thread(jobs))


async def forget_thread(tx: Tx, scope: Scope, thread_uid: str) -> None:
    """Erase the jobs of a thread that is erased; who works on one is fenced off."""
    await tx.run(_FORGET_THREAD, **of_thread(scope, thread_uid))
