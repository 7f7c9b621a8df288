"""Plans: revisions counted on under the thread's lock, the last ones kept."""

import asyncio
from typing import Any

import pytest

from layerlore.storage.core.errors import Conflict, InvalidInput, NotFound
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.threads import threads
from layerlore.storage.work import plans
from layerlore.storage.work.plans import MOST_REVISIONS, PlanChange, PlanHistory

from ..building import ANA, BEN, NOW, draft, rows, say, uid

pytestmark = pytest.mark.anyio


async def put(
    database: Database,
    change: Json,
    thread_id: str = "main",
    *,
    scope: Scope = ANA,
    expected: int | None = None,
    now: int = NOW,
) -> PlanChange:
    """Merge keys into the plan."""
    return await database.write(
        plans.change,
        scope,
        thread_id,
        lambda current: {**(current or {}), **change},
        expected_revision=expected,
        actor="tests",
        new_uid=uid(),
        now=now,
        is_open=lambda plan: plan.get("open", True),
    )


async def kept(database: Database, *revisions: int, thread_id: str = "main") -> PlanHistory:
    found = await database.read(plans.read_history, ANA, thread_id, revisions)
    assert found is not None
    return found


async def test_the_first_change_makes_the_thread_and_revision_1(database: Database) -> None:
    made = await put(database, {"goal": "tea"})
    assert (made.before, made.after.revision, made.after.plan) == (None, 1, {"goal": "tea"})
    assert made.thread == await database.read(threads.find, ANA, "main")
    assert await kept(database) == PlanHistory(made.after, 1, {})
    assert (made.after.actor, made.after.created_at) == ("tests", NOW)


async def test_each_change_is_a_revision_and_earlier_ones_stay_as_they_were(database: Database) -> None:
    plan = {"goal": 'ü "quoted"\n', "steps": [{"n": 1}, {"n": None}]}
    await put(database, plan)
    await put(database, {"goal": "cake"}, now=NOW + 5)
    found = await kept(database, 1, 2, 3)
    assert (found.newest.revision, found.newest.plan["goal"], found.newest.created_at) == (2, "cake", NOW + 5)
    assert found.oldest == 1
    assert {number: revision.plan for number, revision in found.revisions.items()} == {
        1: plan,
        2: {**plan, "goal": "cake"},
    }


async def test_a_change_that_changes_nothing_is_no_revision(database: Database) -> None:
    first = await put(database, {"goal": "tea"})
    again = await put(database, {"goal": "tea"}, now=NOW + 5)
    assert again.before is again.after
    assert again.after == first.after
    assert (await kept(database)).newest == first.after


async def test_a_change_that_is_refused_changes_nothing_and_makes_no_thread(database: Database) -> None:
    def refuse(_: Json | None) -> Json:
        raise InvalidInput("no")

    async def refused(thread_id: str) -> None:
        with pytest.raises(InvalidInput):
            await database.write(
                plans.change,
                ANA,
                thread_id,
                refuse,
                expected_revision=None,
                actor="a",
                new_uid=uid(),
                now=NOW,
                is_open=bool,
            )

    await refused("main")
    with pytest.raises(NotFound):
        await database.read(plans.read_history, ANA, "main")
    before = (await put(database, {"goal": "tea"})).after
    await refused("main")
    assert (await kept(database)).newest == before


async def test_a_thread_without_a_plan_has_none_and_an_unknown_thread_is_not_found(database: Database) -> None:
    await say(database, "main", draft())
    assert await database.read(plans.read_history, ANA, "main") is None
    with pytest.raises(NotFound):
        await database.read(plans.read_history, ANA, "other")


@pytest.mark.parametrize("expected", [1, 2, 4, -1, 2**80])
async def test_another_revision_than_the_expected_one_is_a_conflict_that_names_it(
    database: Database, expected: int
) -> None:
    with pytest.raises(Conflict, match=r"no plan yet \(revision 0\)"):
        await put(database, {"goal": "x"}, expected=expected)
    await put(database, {"goal": "tea"}, expected=0)
    for goal in ("cake", "pie"):
        await put(database, {"goal": goal})
    with pytest.raises(Conflict, match=f"expected_revision={expected}, but the plan is at revision 3"):
        await put(database, {"goal": "x"}, expected=expected)
    assert (await kept(database)).newest.plan == {"goal": "pie"}
    assert (await put(database, {"goal": "x"}, expected=3)).after.revision == 4


async def test_the_last_hundred_revisions_are_kept(database: Database) -> None:
    for number in range(MOST_REVISIONS + 3):
        await put(database, {"n": number})
        await put(database, {"n": number}, "other", scope=BEN)
    found = await kept(database, *range(MOST_REVISIONS + 10))
    assert (found.newest.revision, found.oldest) == (MOST_REVISIONS + 3, 4)
    assert sorted(found.revisions) == list(range(4, MOST_REVISIONS + 4))
    assert all(found.revisions[number].plan == {"n": number - 1} for number in found.revisions)
    stored = await database.read_installation(rows, "SELECT count(*) FROM plans GROUP BY thread_uid")
    assert stored == [(MOST_REVISIONS,), (MOST_REVISIONS,)]


async def test_concurrent_changes_all_survive(database: Database) -> None:
    await asyncio.gather(*(put(database, {f"k{n}": n}) for n in range(40)))
    found = await kept(database)
    assert found.newest.plan == {f"k{n}": n for n in range(40)}
    assert found.newest.revision == 40


async def test_of_concurrent_changes_that_expect_the_same_revision_one_wins(database: Database) -> None:
    await put(database, {"winner": None})
    outcomes: list[Any] = await asyncio.gather(
        *(put(database, {"winner": n}, expected=1) for n in range(20)), return_exceptions=True
    )
    won = [outcome for outcome in outcomes if isinstance(outcome, PlanChange)]
    assert len(won) == 1
    assert all(isinstance(outcome, Conflict) for outcome in outcomes if outcome is not won[0])
    assert (await kept(database)).newest == won[0].after


async def test_plans_of_threads_and_scopes_are_their_own(database: Database) -> None:
    await put(database, {"goal": "hers"})
    await put(database, {"goal": "another"}, "other")
    await put(database, {"goal": "his"}, scope=BEN)
    assert (await kept(database)).newest.plan == {"goal": "hers"}
    assert (await kept(database, thread_id="other")).newest.plan == {"goal": "another"}
