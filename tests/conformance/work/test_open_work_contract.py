"""Open work: plans in which something is left to do and suspended runs, of live threads, changed last first."""

import pytest

from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import Cursor
from layerlore.storage.removal import deletions
from layerlore.storage.threads import threads
from layerlore.storage.work import plans
from layerlore.storage.work.plans import MOST_COUNTED, OpenWork

from ..building import ANA, BEN, MINUTE, NOW, uid
from ..running import Runs

pytestmark = pytest.mark.anyio


@pytest.fixture
def runs(database: Database) -> Runs:
    return Runs(database, scope=ANA)


async def planned(database: Database, thread_id: str, goal: str, *, is_open: bool, now: int, scope: Scope = ANA) -> str:
    """Put a plan. Returns the thread's uid."""
    made: Json = {"goal": goal, "steps": []}
    done = await database.write(
        plans.change,
        scope,
        thread_id,
        lambda _: made,
        expected_revision=None,
        actor="tests",
        new_uid=uid(),
        now=now,
        is_open=lambda _: is_open,
    )
    return done.thread.thread_uid


async def found(
    database: Database, *, other_than: str = "", most: int = 9, now: int = NOW, scope: Scope = ANA
) -> OpenWork:
    return await database.read(plans.find_open, scope, other_than=other_than, now=now, most=most)


def goals(work: OpenWork) -> list[tuple[str, str]]:
    return [(each.thread_id, each.plan["goal"]) for each in work.plans]


async def test_a_scope_without_work_has_none(database: Database) -> None:
    assert await found(database) == OpenWork()


async def test_open_plans_are_found_as_they_are_now_newest_first(database: Database) -> None:
    await planned(database, "tea", "a pot", is_open=True, now=NOW)
    await planned(database, "cake", "a cake", is_open=True, now=NOW + 1)
    await planned(database, "tea", "two pots", is_open=True, now=NOW + 2)
    work = await found(database)
    assert goals(work) == [("tea", "two pots"), ("cake", "a cake")]
    assert [each.updated_at for each in work.plans] == [NOW + 2, NOW + 1]
    assert work.total_plans == 2
    assert await found(database, scope=BEN) == OpenWork()


async def test_a_plan_that_is_done_is_not_open_until_it_is_opened_again(database: Database) -> None:
    await planned(database, "tea", "a pot", is_open=True, now=NOW)
    await planned(database, "tea", "drunk", is_open=False, now=NOW + 1)
    assert goals(await found(database)) == []
    await planned(database, "tea", "another", is_open=True, now=NOW + 2)
    assert goals(await found(database)) == [("tea", "another")]


async def test_the_own_thread_and_deleted_ones_are_left_out(database: Database, runs: Runs) -> None:
    own = await planned(database, "own", "mine", is_open=True, now=NOW)
    await planned(database, "gone", "theirs", is_open=True, now=NOW)
    await runs.suspend("r1", {}, named="own")
    await runs.suspend("r2", {}, named="gone")
    assert len((await found(database)).runs) == 2
    await database.write(deletions.delete_thread, ANA, "gone", deletion_uid=uid(), erase=False, now=NOW)
    work = await found(database)
    assert (goals(work), [run.run_id for run in work.runs]) == ([("own", "mine")], ["r1"])
    assert await found(database, other_than=own) == OpenWork()
    assert (await database.read(threads.find, ANA, "own")).thread_uid == own


async def test_suspended_runs_are_found_until_somebody_takes_them_or_they_expire(runs: Runs) -> None:
    for number in range(4):
        await runs.suspend(f"r{number}", {}, named=f"thread {number}", ttl_seconds=60 if number == 2 else None)
        runs.clock.now += 1
    await runs.complete("r0", (await runs.resume("r0"))["claim"])
    await runs.resume("r3")
    now = runs.clock.now
    work = await found(runs.database, now=now)
    assert ([run.run_id for run in work.runs], work.total_runs) == (["r2", "r1"], 2)
    assert [run.thread_id for run in work.runs] == ["thread 2", "thread 1"]
    later = await found(runs.database, now=now + MINUTE)
    assert [run.run_id for run in later.runs] == ["r1"]


async def test_what_is_not_listed_is_counted_up_to_a_bound(database: Database, runs: Runs) -> None:
    for number in range(4):
        await planned(database, f"thread {number}", "tea", is_open=True, now=NOW + number)
        await runs.suspend(f"r{number}", {}, named=f"thread {number}")
    work = await found(database, most=2)
    assert [each.thread_id for each in work.plans] == ["thread 3", "thread 2"]
    assert (len(work.runs), work.total_plans, work.total_runs) == (2, 4, 4)
    for number in range(4, MOST_COUNTED + 4):
        await planned(database, f"thread {number}", "tea", is_open=True, now=NOW + number)
    assert (await found(database, most=2)).total_plans == MOST_COUNTED


async def test_live_threads_with_a_noted_task_are_found_changed_last_first(database: Database) -> None:
    for number, thread_id in enumerate(("tea", "cake", "gone", "idle")):
        made = await database.write(threads.lock_or_make, ANA, thread_id, uid(), NOW + number)
        task = None if thread_id == "idle" else f"the {thread_id}"
        step = "pour" if thread_id == "tea" else None
        await database.write(observations.buffer, ANA, made, Cursor(0), current_task=task, next_step=step)
    await database.write(deletions.delete_thread, ANA, "gone", deletion_uid=uid(), erase=False, now=NOW)
    noted = await database.read(threads.find_tasks, ANA, most=9)
    assert [(each.thread_id, each.current_task, each.next_step) for each in noted] == [
        ("cake", "the cake", None),
        ("tea", "the tea", "pour"),
    ]
    assert [each.thread_id for each in await database.read(threads.find_tasks, ANA, most=1)] == ["cake"]
    assert await database.read(threads.find_tasks, BEN, most=9) == []
