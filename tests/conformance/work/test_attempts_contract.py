"""The iteration log: numbered by task without a gap, only ever added to."""

import asyncio

import pytest

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.threads import threads
from layerlore.storage.work import steps
from layerlore.storage.work.steps import Attempt, NewAttempt

from ..building import ANA, BEN, NOW, draft, say, uid

pytestmark = pytest.mark.anyio


async def log(
    database: Database, task_key: str, action: str = "try", *, scope: Scope = ANA, now: int = NOW, thread: str = "main"
) -> Attempt:
    tried = NewAttempt(task_key, action, "ended")
    _, logged = await database.write(steps.log, scope, thread, tried, new_uid=uid(), now=now)
    return logged


async def listed(database: Database, task_key: str = "", *, limit: int = 100) -> list[tuple[str, int, str]]:
    page = await database.read(steps.read_attempts, ANA, "main", task_key=task_key, limit=limit)
    return [(each.task_key, each.attempt, each.action) for each in page.attempts]


async def test_an_attempt_is_kept_as_it_was_given(database: Database) -> None:
    tried = NewAttempt("build", 'run "x"\n', "", "boom", "ü", None)
    thread, logged = await database.write(steps.log, ANA, "main", tried, new_uid=uid(), now=NOW)
    assert logged == Attempt("build", 1, 'run "x"\n', "", "boom", "ü", None, NOW)
    page = await database.read(steps.read_attempts, ANA, "main", task_key="build", limit=9)
    assert (page.attempts, page.total) == ([logged], 1)
    assert thread == await database.read(threads.find, ANA, "main")


async def test_numbers_count_from_1_for_each_task_thread_and_scope(database: Database) -> None:
    assert [(await log(database, key)).attempt for key in ("a", "a", "b", "A", "a")] == [1, 2, 1, 1, 3]
    assert (await log(database, "a", thread="other")).attempt == 1
    assert (await log(database, "a", scope=BEN)).attempt == 1


async def test_concurrent_attempts_are_numbered_without_a_gap(database: Database) -> None:
    logged = await asyncio.gather(*(log(database, f"task {n % 2}", str(n)) for n in range(40)))
    for task in ("task 0", "task 1"):
        assert sorted(each.attempt for each in logged if each.task_key == task) == list(range(1, 21))
    assert await listed(database) == sorted((each.task_key, each.attempt, each.action) for each in logged)


async def test_the_newest_attempts_are_listed_in_their_order(database: Database) -> None:
    for number in range(12):
        await log(database, "abc"[number % 3], str(number), now=NOW + number)
    assert await listed(database, "a") == [("a", 1, "0"), ("a", 2, "3"), ("a", 3, "6"), ("a", 4, "9")]
    assert await listed(database, "a", limit=2) == [("a", 3, "6"), ("a", 4, "9")]
    assert await listed(database, limit=4) == [("a", 4, "9"), ("b", 4, "10"), ("c", 3, "8"), ("c", 4, "11")]
    page = await database.read(steps.read_attempts, ANA, "main", task_key="", limit=4)
    assert page.total == 12
    assert await listed(database, "nothing") == []


async def test_a_thread_without_attempts_has_none_and_an_unknown_thread_is_not_found(database: Database) -> None:
    await say(database, "main", draft())
    assert await listed(database) == []
    with pytest.raises(NotFound):
        await database.read(steps.read_attempts, ANA, "other", task_key="", limit=9)
