"""What background work of the whole installation has cost on a day: a budget is held against it. No tenant's content."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import bindparam, select
from sqlalchemy.dialects.postgresql import insert

from layerlore.storage.tables import spending
from layerlore.storage.transaction import Tx

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class OfDay:
    """Tokens, in and out together, and money in nano-dollars; calls whose price is unknown add no money."""

    tokens: int = 0
    cost_nano_usd: int = 0


_put = insert(spending).values(**{column.name: bindparam(column.name) for column in spending.c})
_ADD = _put.on_conflict_do_update(
    index_elements=["day"],
    set_={name: spending.c[name] + _put.excluded[name] for name in ("tokens", "cost_nano_usd")},
)
_OF_DAY = select(spending.c.tokens, spending.c.cost_nano_usd).where(spending.c.day == bindparam("day"))


def day_of(now: int) -> str:
    """The UTC day of a time in milliseconds: YYYY-MM-DD."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%d")


def next_day(now: int) -> int:
    """When the next UTC day begins, in milliseconds."""
    return (now // DAY_MS + 1) * DAY_MS


async def add(tx: Tx, spent: OfDay, *, now: int) -> None:
    """Raise the day's sums."""
    await tx.run(_ADD, day=day_of(now), tokens=spent.tokens, cost_nano_usd=spent.cost_nano_usd)


async def on(tx: Tx, day: str) -> OfDay:
    """What was spent on a day."""
    row = await tx.one(_OF_DAY, day=day)
    return OfDay(*row) if row else OfDay()
