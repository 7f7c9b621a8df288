"""Steps: numbered for each thread across operations, found by operation, hidden and erased with their message."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.removal import deletions
from layerlore.storage.threads import threads
from layerlore.storage.work import steps
from layerlore.storage.work.steps import NewStep, Step, StepPage

from ..building import ANA, BEN, NOW, draft, drop, examples, new_scope, only, say, search_text, uid
from ..threads.test_events_contract import PAYLOADS

pytestmark = pytest.mark.anyio


def step(operation_id: str = "op", message_seq: int | None = None, **body: object) -> NewStep:
    return NewStep(operation_id, "text", body, NOW, message_seq)


async def record(
    database: Database, *made: NewStep, thread_id: str = "main", scope: Scope = ANA, now: int = NOW
) -> int:
    new_uid = uid()

    async def write(tx: Tx, scope: Scope) -> int:
        thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, now)
        return await steps.record(tx, scope, thread, made, now=now)

    return await database.write(write, scope)


async def listed(
    database: Database,
    *,
    thread_id: str = "main",
    scope: Scope = ANA,
    operation_id: str = "",
    after: int = 0,
    limit: int = 200,
) -> StepPage:
    return await database.read(steps.read_page, scope, thread_id, operation_id=operation_id, after=after, limit=limit)


def seqs(page: StepPage) -> list[int]:
    return [each.seq for each in page.steps]


async def test_steps_keep_their_order_across_operations_and_calls(database: Database) -> None:
    assert await record(database, step("b", n=1), step("a", n=2)) == 1
    assert await record(database, NewStep("b", "tool_call", {"n": 3}, NOW - 7)) == 3
    page = await listed(database)
    assert page.steps == [
        Step(1, "b", "text", {"n": 1}, NOW),
        Step(2, "a", "text", {"n": 2}, NOW),
        Step(3, "b", "tool_call", {"n": 3}, NOW - 7),
    ]
    assert not page.more
    assert seqs(await listed(database, operation_id="b")) == [1, 3]
    assert seqs(await listed(database, operation_id="c")) == []


async def test_a_page_goes_on_after_a_seq(database: Database) -> None:
    await record(database, *(step("ab"[n % 2]) for n in range(6)))
    page = await listed(database, limit=2)
    assert (seqs(page), page.more) == ([1, 2], True)
    page = await listed(database, operation_id="b", after=2, limit=2)
    assert (seqs(page), page.more) == ([4, 6], False)


async def test_each_thread_counts_for_itself_and_recording_makes_it_new_again(database: Database) -> None:
    await record(database, step(), step())
    assert await record(database, step(), thread_id="other") == 1
    assert await record(database, step(), scope=BEN) == 1
    assert await record(database, step(), now=NOW + 9) == 3
    assert (await listed(database)).thread.updated_at == NOW + 9
    for scope, name in ((ANA, "nobody"), (BEN, "other")):
        with pytest.raises(NotFound, match=name):
            await listed(database, thread_id=name, scope=scope)


async def test_a_step_made_from_a_message_is_hidden_restored_and_erased_with_it(database: Database) -> None:
    await say(database, "main", draft(id="m1"), draft(id="m2"))
    await record(database, step(), step(message_seq=1), step(message_seq=2))
    deleted = await drop(database, "main", "ids", ["m1"])
    assert seqs(await listed(database)) == [1, 3]
    assert seqs(await listed(database, operation_id="op", limit=2)) == [1, 3]
    assert deleted.deletion_uid is not None
    await database.write(deletions.restore, ANA, deleted.deletion_uid, now=NOW, search_text=search_text)
    assert seqs(await listed(database)) == [1, 2, 3]
    await drop(database, "main", "ids", ["m1"], erase=True)
    assert await only(database, "SELECT count(*) FROM steps") == 2
    assert await record(database, step()) == 4


async def test_messages_are_found_by_their_ids_unless_they_are_deleted(database: Database) -> None:
    await say(database, "main", *(draft(id=f"m{n}") for n in range(1, 4)))
    await say(database, "other", draft(id="m9"))
    await drop(database, "main", "ids", ["m2"])

    async def look(tx: Tx, scope: Scope) -> dict[str, int]:
        thread = await threads.find(tx, ANA, "main")
        return await steps.message_seqs(tx, ANA, thread, ["m1", "m2", "m3", "m9", "m0"])

    assert await database.read(look, ANA) == {"m1": 1, "m3": 3}


async def test_steps_go_with_their_thread(database: Database) -> None:
    await record(database, step())
    await database.write(deletions.delete_thread, ANA, "main", deletion_uid=uid(), erase=False, now=NOW)
    with pytest.raises(NotFound):
        await listed(database)
    assert await record(database, step()) == 1
    await database.write(deletions.erase_expired, ANA, deleted_before=NOW + 9, answered_before=NOW + 9)
    assert await only(database, "SELECT count(*) FROM steps") == 1


async def test_writers_at_once_get_seqs_without_a_gap(database: Database) -> None:
    firsts = await asyncio.gather(*(record(database, step(str(n)), step(str(n))) for n in range(12)))
    assert sorted(firsts) == list(range(1, 25, 2))
    page = await listed(database)
    assert [each.operation_id for each in page.steps[::2]] == [each.operation_id for each in page.steps[1::2]]


@examples(30)
@given(bodies=st.lists(PAYLOADS, min_size=1, max_size=4))
async def test_any_body_comes_back_as_it_was(database: Database, bodies: list[Json]) -> None:
    scope = new_scope()
    await record(database, *(NewStep("op", "text", body, NOW) for body in bodies), scope=scope)
    assert [each.body for each in (await listed(database, scope=scope)).steps] == bodies
