"""How often tools were called on a day: sums that hold whoever adds to them, of scopes that keep something."""

import asyncio
from dataclasses import replace

import pytest

from layerlore.storage.audit import daily_calls
from layerlore.storage.audit.daily_calls import CallCount
from layerlore.storage.audit.usage_rows import DAYS_KEPT
from layerlore.storage.core import scopes
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.tables import WAITS
from layerlore.storage.core.transaction import Database
from layerlore.storage.removal import erasure

from ..building import ANA, BEN, draft, say

pytestmark = pytest.mark.anyio

LOCAL, TODAY = Tenant("local"), 20_000
ELSEWHERE = Scope("another-tenant", "agent", "ana")
RECALLED = CallCount(TODAY, "tool", "recall_memory", 3, 1, 40, 0, tuple(range(len(WAITS))))
HOOKED = CallCount(TODAY, "hook", "codex", 1, 0, 90, 7)


async def add(database: Database, *counts: CallCount, scope: Scope = ANA, today: int = TODAY) -> None:
    await database.write(daily_calls.add, Tenant(scope.tenant_id), [(scope, counts)], today=today)


async def of(database: Database, scope: Scope = ANA, since: int = 0) -> list[CallCount]:
    return await database.read(daily_calls.by_day, scope, since)


async def test_counts_add_up_for_each_day_and_tool_whoever_adds_them(database: Database) -> None:
    for scope in (ANA, BEN):
        await database.write(scopes.hold, scope)
    both = [(ANA, [RECALLED, HOOKED]), (BEN, [HOOKED])]
    await asyncio.gather(*(database.write(daily_calls.add, LOCAL, both, today=TODAY) for _ in range(5)))
    await add(database, replace(RECALLED, day=TODAY + 1))
    five = tuple(5 * number for number in RECALLED.waits)
    assert await of(database) == [
        CallCount(TODAY, "hook", "codex", 5, 0, 450, 35),
        CallCount(TODAY, "tool", "recall_memory", 15, 5, 200, 0, five),
        replace(RECALLED, day=TODAY + 1),
    ]
    assert await of(database, since=TODAY + 1) == [replace(RECALLED, day=TODAY + 1)]
    assert await of(database, BEN) == [CallCount(TODAY, "hook", "codex", 5, 0, 450, 35)]


async def test_a_scope_of_which_nothing_is_kept_gets_no_row(database: Database) -> None:
    await database.write(scopes.hold, ANA)
    await add(database, RECALLED, scope=BEN)
    await database.write(scopes.hold, BEN)
    assert await of(database, BEN) == []


async def test_a_tenant_adds_to_its_own_scopes_alone(database: Database) -> None:
    for scope in (ANA, ELSEWHERE):
        await database.write(scopes.hold, scope)
    await database.write(daily_calls.add, LOCAL, [(ELSEWHERE, [RECALLED])], today=TODAY)
    assert await of(database, ELSEWHERE) == []
    assert await of(database) == [RECALLED]


async def test_days_of_long_ago_go(database: Database) -> None:
    for scope in (ANA, BEN):
        await database.write(scopes.hold, scope)
        await add(database, RECALLED, replace(RECALLED, day=TODAY + 1), scope=scope)
    new = replace(RECALLED, day=TODAY + DAYS_KEPT + 1)
    await add(database, new, today=new.day)
    assert [each.day for each in await of(database)] == [TODAY + 1, new.day]
    assert [each.day for each in await of(database, BEN)] == [TODAY, TODAY + 1]


async def test_a_conversation_is_enough_to_be_known_by(database: Database) -> None:
    await say(database, "main", draft())
    await add(database, RECALLED)
    assert await of(database) == [RECALLED]
    await database.write(erasure.hide, ANA)
    await add(database, RECALLED)
    assert await of(database) == []


async def test_what_is_erased_loses_its_counts_and_gets_none_that_come_late(database: Database) -> None:
    for scope in (ANA, BEN):
        await database.write(scopes.hold, scope)
        await add(database, RECALLED, scope=scope)
    await database.write(erasure.hide, ANA)
    await add(database, RECALLED)
    assert await of(database) == []
    assert await of(database, BEN) == [RECALLED]
