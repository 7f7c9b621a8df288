"""A transaction is one unit: nothing is lost between two of them, and a caller who goes away leaves nothing half done."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import bindparam

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import ROLES, Scope
from layerlore.storage.core.scopes import of_thread
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.messages import message_pages, message_rows
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import Description

from ..building import ANA, NOW, draft, everything, execute, only, say, search_text, seqs, uid

pytestmark = pytest.mark.anyio


RENAME = threads.totals_change({"title": bindparam("new_title")})


class Refused(Exception):
    pass


async def increment(tx: Tx, scope: Scope, thread_id: str, new_uid: str) -> int:
    """Read, then write what follows from it."""
    thread = await threads.lock_or_make(tx, ANA, thread_id, new_uid, NOW)
    count = int(thread.metadata.get("count", 0)) + 1
    change = Description(None, {"count": count})
    await threads.describe(tx, ANA, thread_id, change, new_uid=new_uid, now=NOW, check=lambda _: None)
    return count


async def count_of(database: Database, thread_id: str) -> int:
    thread = await database.read(threads.find, ANA, thread_id)
    count: int = thread.metadata["count"]
    return count


async def test_transactions_that_read_and_then_write_at_once_all_survive(database: Database) -> None:
    async def eight_times() -> list[int]:
        return [await database.write(increment, ANA, "counter", uid()) for _ in range(8)]

    counts = await asyncio.gather(*(eight_times() for _ in range(8)))
    assert sorted(n for part in counts for n in part) == list(range(1, 65))
    assert await count_of(database, "counter") == 64


async def test_what_a_function_raises_reaches_its_caller_and_undoes_its_work(database: Database) -> None:
    async def fail(tx: Tx, scope: Scope) -> None:
        await message_rows.append(
            tx, ANA, "main", [draft()], new_uid=uid(), replace_known=False, now=NOW, search_text=search_text
        )
        raise Refused("no")

    with pytest.raises(Refused, match="no"):
        await database.write(fail, ANA)
    with pytest.raises(NotFound):
        await everything(database, "main")
    assert (await say(database, "main", draft())).stored[0].seq == 1


async def test_an_error_in_one_of_many_at_once_does_not_touch_the_others(database: Database) -> None:
    async def fail(tx: Tx, scope: Scope, /, name: str) -> int:
        await message_rows.append(
            tx, ANA, name, [draft()], new_uid=uid(), replace_known=False, now=NOW, search_text=search_text
        )
        raise Refused(name)

    async def one(n: int) -> int:
        if n % 3 == 0:
            return await database.write(fail, ANA, f"t{n}")
        return (await say(database, f"t{n}", draft())).stored[0].seq

    answers = await asyncio.gather(*(one(n) for n in range(30)), return_exceptions=True)
    for n, answer in enumerate(answers):
        if n % 3 == 0:
            assert isinstance(answer, Refused)
            assert str(answer) == f"t{n}"
        else:
            assert answer == 1
    assert await only(database, "SELECT count(*) FROM threads") == 20


async def test_a_write_is_seen_by_every_read_that_begins_after_its_answer(database: Database) -> None:
    for n in range(1, 20):
        await say(database, "main", draft())
        assert await asyncio.gather(*(seqs(database, "main") for _ in range(3))) == [list(range(1, n + 1))] * 3


async def test_a_function_reads_what_it_wrote_just_before(database: Database) -> None:
    async def write_and_look(tx: Tx, scope: Scope) -> list[int]:
        totals = []
        for _ in range(3):
            await message_rows.append(
                tx, ANA, "main", [draft()], new_uid="uid", replace_known=False, now=NOW, search_text=search_text
            )
            totals.append((await message_pages.page(tx, ANA, "main", roles=ROLES, limit=9)).total)
        return totals

    assert await database.write(write_and_look, ANA) == [1, 2, 3]
    assert await seqs(database, "main") == [1, 2, 3]


async def test_rows_of_one_table_are_written_in_the_order_in_which_a_function_writes_them(database: Database) -> None:
    async def rename(tx: Tx, scope: Scope) -> None:
        await threads.lock_or_make(tx, ANA, "main", "uid", NOW)
        for title in ("first", "second", "third"):
            await tx.many(RENAME, [{**of_thread(ANA, "uid"), "new_title": title}])

    await database.write(rename, ANA)
    assert (await database.read(threads.find, ANA, "main")).title == "third"


async def test_a_read_sees_one_state_while_others_write(database: Database) -> None:
    await say(database, "main", draft())
    loop = asyncio.get_running_loop()

    async def look_twice(tx: Tx, scope: Scope) -> tuple[int, int, int]:
        before = (await message_pages.page(tx, ANA, "main", roles=ROLES, limit=9)).total
        meanwhile = say(database, "main", draft())
        if asyncio._get_running_loop() is None:  # the function runs in a thread of its reader
            stored = asyncio.run_coroutine_threadsafe(meanwhile, loop).result(timeout=20)
        else:
            stored = await meanwhile
        after = (await message_pages.page(tx, ANA, "main", roles=ROLES, limit=9)).total
        return before, after, stored.thread.message_count

    assert await database.read(look_twice, ANA) == (1, 1, 2)
    assert await seqs(database, "main") == [1, 2]


async def test_a_read_cannot_write(database: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)readonly|read-only"):
        await database.read_installation(execute, "DELETE FROM threads")


async def test_a_thousand_cancellations_leave_nothing_open_and_nothing_half_done(
    database: Database, nothing_is_open: Callable[[Database], Awaitable[None]]
) -> None:
    """Each append brings two messages; a caller may be cancelled before, within or after its transaction."""

    async def look() -> None:
        await database.read(
            threads.read_page, ANA, threads.ThreadFilter(order_by="title", descending=False), after=None, limit=9
        )

    async def append(n: int) -> None:
        await say(database, f"t{n % 5}", draft(id=f"m{n}.0"), draft(id=f"m{n}.1"))

    choose = random.Random(7)
    running: set[asyncio.Task[None]] = set()
    for n in range(1000):
        unit = asyncio.create_task(append(n) if n % 4 else look())
        running.add(unit)
        for _ in range(choose.randrange(6)):
            await asyncio.sleep(0)
        if choose.random() < 0.3:
            await asyncio.wait({unit}, timeout=choose.random() * 0.004)
        unit.cancel()
        if len(running) >= 40 or choose.random() < 0.2:
            await asyncio.wait(running)
            running.clear()
    await asyncio.gather(*running, return_exceptions=True)
    await nothing_is_open(database)
    stored = await only(database, "SELECT count(*) FROM messages")
    assert 0 < stored < 1500, "some were cancelled before and some after their transaction"
    for thread_id in sorted({f"t{n}" for n in range(5)}):
        await say(database, thread_id, draft(id="next"))
        kept = await everything(database, thread_id)
        assert [message.seq for message in kept] == list(range(1, len(kept) + 1))
        halves = [message.id.partition(".")[0] for message in kept if message.id != "next"]
        assert all(halves.count(name) == 2 for name in halves)
