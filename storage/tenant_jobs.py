"""The background jobs of a whole tenant: how many are due, and putting them off until it may spend again."""

from collections.abc import Collection

from sqlalchemy import and_, bindparam, func, or_, select, update

from layerlore.storage.jobs import Kind
from layerlore.storage.records import Tenant
from layerlore.storage.statements import any_of
from layerlore.storage.tables import jobs
from layerlore.storage.transaction import Tx

# As the index on such rows says it, so that it serves.
_open = and_(jobs.c.requested_seq > jobs.c.done_seq, jobs.c.dead_at.is_(None))
_of_tenant = and_(jobs.c.tenant_id == bindparam("of_tenant"), _open, any_of(jobs.c.kind, "kinds"))

_due = select(jobs.c.kind).where(_of_tenant, jobs.c.due_at <= bindparam("now")).limit(bindparam("most"))
_COUNT = select(func.count()).select_from(_due.subquery())


async def count_due(tx: Tx, tenant: Tenant, kinds: Collection[Kind], *, most: int, now: int) -> int:
    """How many jobs of the kinds are due, running ones included; ``most`` if there are more."""
    row = await tx.one(_COUNT, of_tenant=tenant.tenant_id, kinds=list(kinds), most=most, now=now)
    return int(row[0]) if row else 0


_PUT_OFF = (
    update(jobs)
    .where(
        _of_tenant,
        jobs.c.due_at < bindparam("until"),
        or_(jobs.c.lease_until.is_(None), jobs.c.lease_until <= bindparam("now")),
    )
    .values(due_at=bindparam("until"), updated_at=bindparam("now"))
)


async def put_off(tx: Tx, tenant: Tenant, kinds: Collection[Kind], *, until: int, now: int) -> int:
    """Let the jobs of the kinds that nobody works on be due at ``until`` and not before; that counts as no failure. More
    that is asked of one makes it due as always. Counts them."""
    return await tx.run(_PUT_OFF, of_tenant=tenant.tenant_id, kinds=list(kinds), until=until, now=now)
