"""What a tenant's background work took of models on a day: an allowance is held against it."""

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert

from layerlore.storage.records import Tenant
from layerlore.storage.spending import day_of
from layerlore.storage.tables import tenant_spending
from layerlore.storage.transaction import Tx

_put = insert(tenant_spending).values(**{column.name: bindparam(column.name) for column in tenant_spending.c})
_ADD = _put.on_conflict_do_update(
    index_elements=["tenant_id", "day"], set_={"tokens": tenant_spending.c.tokens + _put.excluded.tokens}
)
_ON = select(tenant_spending.c.tokens).where(
    tenant_spending.c.tenant_id == bindparam("of_tenant"), tenant_spending.c.day == bindparam("of_day")
)


async def add(tx: Tx, tenant: Tenant, tokens: int, *, now: int) -> None:
    """Raise the day's sum."""
    await tx.run(_ADD, tenant_id=tenant.tenant_id, day=day_of(now), tokens=tokens)


async def on(tx: Tx, tenant: Tenant, day: str) -> int:
    """The tokens of a day, in and out together."""
    row = await tx.one(_ON, of_tenant=tenant.tenant_id, of_day=day)
    return int(row[0]) if row else 0
