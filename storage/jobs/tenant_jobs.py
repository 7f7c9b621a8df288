"""The jobs of a whole tenant: how many are due, and that they wait until its allowance is renewed."""

from collections.abc import Collection

from sqlalchemy import and_, bindparam, func, or_, select, update

from layerlore.storage.core.records import Tenant
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import jobs
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs.jobs import Kind

_open = and_(jobs.c.requested_seq > jobs.c.done_seq, jobs.c.dead_at.is_(None))  # as the index says it
_of_tenant = and_(jobs.c.tenant_id == bindparam("of_tenant"), _open, any_of(jobs.c.kind, "kinds"))

_due_of_tenant = select(jobs.c.kind).where(_of_tenant, jobs.c.due_at <= bindparam("now")).limit(bindparam("most"))
_COUNT_DUE = select(func.count()).select_from(_due_of_tenant.subquery())


async def count_due(tx: Tx, tenant: Tenant, kinds: Collection[Kind], *, most: int, now: int) -> int:
    """How many jobs of the kinds are due, running ones included; ``most`` if there are more."""
    return int(await tx.scalar(_COUNT_DUE, of_tenant=tenant.tenant_id, kinds=list(kinds), most=most, now=now) or 0)


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
