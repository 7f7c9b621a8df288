"""What background work costs in a day."""

import asyncio

import pytest

from layerlore.storage.audit import usage_rows
from layerlore.storage.audit.usage_rows import OfDay, day_of, next_day
from layerlore.storage.core.transaction import Database

from ..building import NOW

pytestmark = pytest.mark.anyio


async def test_a_day_sums_up_what_is_added_and_the_next_begins_at_nothing(database: Database) -> None:
    await asyncio.gather(
        *(database.write_installation(usage_rows.add_spending, OfDay(10, 3), now=NOW) for _ in range(20))
    )
    tomorrow = next_day(NOW)
    await database.write_installation(usage_rows.add_spending, OfDay(1, 1), now=tomorrow)
    assert await database.read_installation(usage_rows.read_of_day, day_of(NOW)) == OfDay(200, 60)
    assert await database.read_installation(usage_rows.read_of_day, day_of(tomorrow)) == OfDay(1, 1)
    assert await database.read_installation(usage_rows.read_of_day, "1999-12-31") == OfDay()


def test_days_are_those_of_utc() -> None:
    assert day_of(0) == "1970-01-01"
    assert day_of(86_400_000 - 1) == "1970-01-01"
    assert day_of(next_day(0)) == "1970-01-02"
    assert next_day(next_day(0)) == 2 * 86_400_000
