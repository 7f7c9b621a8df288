"""What background work has spent on models on a day: the whole installation, held against its budget, and each tenant,
held against its allowance."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import bindparam, select

from layerlore.storage.core.records import Tenant
from layerlore.storage.core.statements import insert_or_update, refused
from layerlore.storage.core.tables import spending, tenant_spending
from layerlore.storage.core.transaction import Tx

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class OfDay:
    """Tokens, in and out together, and money in nano-dollars; calls whose price is unknown add no money."""

    tokens: int = 0
    cost_nano_usd: int = 0


_ADD = insert_or_update(
    spending,
    {column.name: bindparam(column.name) for column in spending.c},
    keys=("day",),
    changes={name: spending.c[name] + refused(spending)[name] for name in ("tokens", "cost_nano_usd")},
)
_OF_DAY = select(spending.c.tokens, spending.c.cost_nano_usd).where(spending.c.day == bindparam("day"))


_ADD_OF_TENANT = insert_or_update(
    tenant_spending,
    {column.name: bindparam(column.name) for column in tenant_spending.c},
    keys=("tenant_id", "day"),
    changes={"tokens": tenant_spending.c.tokens + refused(tenant_spending).tokens},
)
_OF_TENANT = select(tenant_spending.c.tokens).where(
    tenant_spending.c.tenant_id == bindparam("of_tenant"), tenant_spending.c.day == bindparam("of_day")
)


def day_of(now: int) -> str:
    """The UTC day of a time in milliseconds: YYYY-MM-DD."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%d")


def next_day(now: int) -> int:
    """When the next UTC day begins, in milliseconds."""
    return (now // DAY_MS + 1) * DAY_MS


async def add(tx: Tx, spent: OfDay, *, now: int) -> None:
    """Raise the installation's sums of the day."""
    await tx.run(_ADD, day=day_of(now), tokens=spent.tokens, cost_nano_usd=spent.cost_nano_usd)


async def read_of_day(tx: Tx, day: str) -> OfDay:
    """What the installation spent on a day."""
    row = await tx.one(_OF_DAY, day=day)
    return OfDay(*row) if row else OfDay()


async def add_of_tenant(tx: Tx, tenant: Tenant, tokens: int, *, now: int) -> None:
    """Raise a tenant's sum of the day."""
    await tx.run(_ADD_OF_TENANT, tenant_id=tenant.tenant_id, day=day_of(now), tokens=tokens)


async def read_of_tenant(tx: Tx, tenant: Tenant, day: str) -> int:
    """The tokens that a tenant spent on a day, in and out together."""
    return int(await tx.scalar(_OF_TENANT, of_tenant=tenant.tenant_id, of_day=day) or 0)
