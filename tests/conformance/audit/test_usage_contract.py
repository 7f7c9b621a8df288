"""Tokens and money: sums that are exact, whoever raises them, for each thread, resource and agent."""

import asyncio
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.storage.audit import usage_rows
from layerlore.storage.audit.usage_rows import OfOwner, UsageLine, UsageSums
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.transaction import Database
from layerlore.storage.removal import deletions

from ..building import ANA, BEN, NOW, draft, examples, new_scope, say, uid

pytestmark = pytest.mark.anyio

DAY = 86_400_000
COACH = Scope("local", "coach", "ana")
ELSEWHERE = Scope("another-tenant", "agent", "ana")


def line(model: str = "m", cost: int = 7, source: str = "steps", *, unpriced: int = 0) -> UsageLine:
    return UsageLine(model, source, UsageSums(1, 10, 3, cost, unpriced))


async def add(database: Database, *lines: UsageLine, thread_uid: str = "t", scope: Scope = ANA, now: int = NOW) -> None:
    await database.write(usage_rows.add, scope, thread_uid, lines, now=now)


async def test_what_is_spent_adds_up_for_each_model_and_source(database: Database) -> None:
    await add(database, line("b"), line("a"), line("b", 5))
    await add(database, line("b", unpriced=1), line("b", source="observer"))
    assert await database.read(usage_rows.of_resource, ANA) == [
        UsageLine("a", "steps", UsageSums(1, 10, 3, 7)),
        UsageLine("b", "observer", UsageSums(1, 10, 3, 7)),
        UsageLine("b", "steps", UsageSums(3, 30, 9, 19, 1)),
    ]
    assert await database.read(usage_rows.of_resource, BEN) == []
    await add(database)
    assert len(await database.read(usage_rows.of_resource, ANA)) == 3


async def test_each_day_has_a_sum_and_days_of_long_ago_go(database: Database) -> None:
    await add(database, line("a"), line("b", source="observer"), now=NOW)
    await add(database, line("a", 1), thread_uid="two", now=NOW + DAY)
    await add(database, line("a"), scope=BEN, now=NOW)
    today = NOW // DAY
    assert await database.read(usage_rows.by_day, ANA, today) == {
        today: UsageSums(2, 20, 6, 14),
        today + 1: UsageSums(1, 10, 3, 1),
    }
    assert await database.read(usage_rows.by_day, ANA, today + 1) == {today + 1: UsageSums(1, 10, 3, 1)}
    await add(database, now=NOW + 401 * DAY)
    assert len(await database.read(usage_rows.by_day, ANA, 0)) == 2
    await add(database, line("a"), now=NOW + (usage_rows.DAYS_KEPT + 1) * DAY)
    assert [*await database.read(usage_rows.by_day, ANA, 0)] == [today + 1, today + usage_rows.DAYS_KEPT + 1]
    assert [*await database.read(usage_rows.by_day, BEN, 0)] == [today]


async def test_threads_have_sums_of_their_own(database: Database) -> None:
    await add(database, line("a"), line("b"), thread_uid="one")
    await add(database, line("a", 1), thread_uid="two")
    await add(database, line("a"), thread_uid="one", scope=BEN)
    assert await database.read(usage_rows.of_threads, ANA, ["one", "two", "three"]) == {
        "one": UsageSums(2, 20, 6, 14),
        "two": UsageSums(1, 10, 3, 1),
    }
    assert await database.read(usage_rows.of_threads, ANA, []) == {}


async def test_an_operator_sees_threads_by_name_while_they_are_there(database: Database) -> None:
    uids = [(await say(database, name, draft())).thread.thread_uid for name in ("kept", "hidden", "erased")]
    for thread_uid in (*uids, ""):
        await add(database, line(), thread_uid=thread_uid)
    await add(database, line(), thread_uid=uids[0], scope=BEN)
    for name, erase in (("hidden", False), ("erased", True)):
        await database.write(deletions.delete_thread, ANA, name, deletion_uid=uid(), erase=erase, now=NOW)
    seen = await database.read(usage_rows.by_thread, ANA)
    assert sorted(str(each.owner) for each in seen) == ["None", "None", "None", "kept"]
    assert {each.line for each in seen} == {line()}
    await database.write(deletions.erase_expired, ANA, deleted_before=NOW + 9, answered_before=NOW + 9)
    assert await database.read(usage_rows.of_resource, ANA) == [UsageLine("m", "steps", UsageSums(4, 40, 12, 28))]


async def test_an_operator_sees_the_resources_of_an_agent_and_the_agents_of_a_tenant(database: Database) -> None:
    await add(database, line(), thread_uid="one")
    await add(database, line(), thread_uid="two")
    for scope in (BEN, COACH, ELSEWHERE):
        await add(database, line(cost=1), scope=scope)
    twice = UsageLine("m", "steps", UsageSums(2, 20, 6, 14))
    assert await database.read(usage_rows.by_resource, Tenant("local"), "agent") == [
        OfOwner("ana", twice),
        OfOwner("ben", line(cost=1)),
    ]
    assert await database.read(usage_rows.by_agent, Tenant("local")) == [
        OfOwner("agent", UsageLine("m", "steps", UsageSums(3, 30, 9, 15))),
        OfOwner("coach", line(cost=1)),
    ]


async def test_writers_at_once_lose_nothing(database: Database) -> None:
    await asyncio.gather(*(add(database, line("a"), line("b"), thread_uid=str(n % 2)) for n in range(20)))
    await asyncio.gather(*(add(database, line("b"), line("a")) for _ in range(20)))
    expected = UsageSums(40, 400, 120, 280)
    assert await database.read(usage_rows.of_resource, ANA) == [
        UsageLine("a", "steps", expected),
        UsageLine("b", "steps", expected),
    ]


COUNTS = st.builds(
    UsageSums,
    st.integers(0, 5),
    st.integers(0, 10**8),
    st.integers(0, 10**8),
    st.integers(0, 10**13),
    st.integers(0, 5),
)
LINES = st.builds(UsageLine, st.sampled_from(["a", "b", ""]), st.sampled_from(["steps", "observer"]), COUNTS)


@examples(30)
@given(calls=st.lists(st.tuples(st.sampled_from(["one", "two"]), st.lists(LINES, max_size=4)), max_size=6))
async def test_sums_are_exact_for_any_sequence(database: Database, calls: list[tuple[str, list[UsageLine]]]) -> None:
    scope = new_scope()
    of_model: dict[tuple[str, str], UsageSums] = defaultdict(UsageSums)
    of_thread: dict[str, UsageSums] = defaultdict(UsageSums)
    for thread_uid, lines in calls:
        await add(database, *lines, thread_uid=thread_uid, scope=scope)
        for each in lines:
            of_model[each.model, each.source] += each.spent
            of_thread[thread_uid] += each.spent
    found = await database.read(usage_rows.of_resource, scope)
    assert {(each.model, each.source): each.spent for each in found} == of_model
    assert await database.read(usage_rows.of_threads, scope, ["one", "two"]) == of_thread
