"""Observations: kept in the order of the thread, activated in whole batches, never behind where they were."""

import pytest

from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import Activation, Cursor, NewObservation, Observation, Status
from layerlore.storage.threads import threads

from ..building import ANA, BEN, NOW, draft, drop, say

pytestmark = pytest.mark.anyio


def new(text: str, batch: int, *, tokens: int = 10, parent: int | None = None) -> NewObservation:
    return NewObservation("info", text, NOW, None, batch, batch, tokens, "user", batch, parent=parent)


async def thread_of(database: Database) -> Thread:
    return await database.read(threads.find, ANA, "main")


async def note(database: Database, batch: int, *texts: str, tokens: int = 10) -> list[int]:
    """Note ahead, up to a seq."""

    async def unit(tx: Tx, scope: Scope) -> list[int]:
        thread = await threads.lock(tx, ANA, "main")
        made = [new(text, batch, tokens=tokens) for text in texts]
        ids = await observations.add(
            tx, ANA, thread.thread_uid, made, status="buffered", model="m", prompt="p/1", now=NOW
        )
        await observations.buffer(tx, ANA, thread, Cursor(batch), current_task="tea", next_step=None)
        return ids

    return await database.write(unit, ANA)


async def activate(database: Database, keep: int) -> Activation | None:
    async def unit(tx: Tx, scope: Scope) -> Activation | None:
        return await observations.activate(tx, ANA, await threads.lock(tx, ANA, "main"), keep=keep)

    return await database.write(unit, ANA)


async def listed(database: Database, *statuses: Status) -> list[Observation]:
    return await database.read(observations.read, ANA, (await thread_of(database)).thread_uid, *statuses)


async def changed(database: Database, *seqs: int) -> None:
    uid = (await thread_of(database)).thread_uid
    await database.write(observations.changed, ANA, uid, list(seqs), now=NOW)


async def ten(database: Database) -> None:
    await say(database, "main", *(draft(f"word{n}", id=f"m{n}", tokens=100) for n in range(1, 11)))


async def test_an_append_counts_the_tokens_that_no_observation_tells(database: Database) -> None:
    await ten(database)
    assert (await thread_of(database)).raw_tokens == 1000
    await say(database, "main", draft("other", id="m3", tokens=40), replace_known=True)
    assert (await thread_of(database)).raw_tokens == 940
    await drop(database, "main", "ids", ["m3", "m4"])
    assert (await thread_of(database)).raw_tokens == 800


async def test_as_many_batches_are_activated_as_leave_enough_raw(database: Database) -> None:
    await ten(database)
    for batch in (3, 6, 9):
        await note(database, batch, f"upto {batch}")
    assert await activate(database, 300) == Activation(6, 400, 20)
    thread = await thread_of(database)
    assert (thread.observed_seq, thread.buffered_seq, thread.raw_tokens) == (6, 9, 400)
    assert [row.text for row in await listed(database, "active")] == ["upto 3", "upto 6"]
    # Of one batch that leaves too little, the batch.
    assert await activate(database, 300) == Activation(9, 100, 30)
    assert await activate(database, 300) is None


async def test_a_batch_without_notes_ends_where_the_cursor_is(database: Database) -> None:
    await ten(database)
    await note(database, 4)
    assert await activate(database, 0) == Activation(4, 600, 0)


async def test_what_was_told_is_not_counted_when_it_is_deleted_and_neither_when_it_is_replaced(
    database: Database,
) -> None:
    await ten(database)
    await note(database, 5, "five")
    await activate(database, 0)
    await drop(database, "main", "ids", ["m2", "m9"])
    assert (await thread_of(database)).raw_tokens == 400
    await say(database, "main", draft("other", id="m3", tokens=7), replace_known=True)
    assert (await thread_of(database)).raw_tokens == 400


async def test_ids_are_counted_on_and_children_name_their_parent(database: Database) -> None:
    await ten(database)
    assert await note(database, 2, "a", "b") == [1, 2]
    uid = (await thread_of(database)).thread_uid
    ids = await database.write(
        observations.add,
        ANA,
        uid,
        [new("c", 3), new("d", 3, parent=0)],
        status="buffered",
        model="m",
        prompt="p/1",
        now=NOW,
    )
    assert ids == [3, 4]
    assert [row.parent_id for row in await listed(database, "buffered")] == [None, None, None, 3]
    newest = await database.read(observations.newest, ANA, uid, upto=2, most=1)
    assert [row.text for row in newest] == ["b"]


async def test_the_cursor_never_moves_back(database: Database) -> None:
    await ten(database)
    await note(database, 5)
    with pytest.raises(AssertionError):
        await note(database, 4)


async def test_a_message_noted_ahead_that_goes_takes_its_batch_and_later_ones_along(database: Database) -> None:
    await ten(database)
    for batch in (3, 6, 9):
        await note(database, batch, f"upto {batch}")
    await drop(database, "main", "ids", ["m5"])
    thread = await thread_of(database)
    assert (thread.buffered_seq, thread.current_task) == (3, None)
    assert [row.text for row in await listed(database, "buffered")] == ["upto 3"]
    await drop(database, "main", "ids", ["m9"])
    assert (await thread_of(database)).buffered_seq == 3


async def test_a_message_that_is_told_takes_its_batch_along_and_leaves_a_gap(database: Database) -> None:
    await ten(database)
    for batch in (3, 6, 9):
        await note(database, batch, f"upto {batch}")
    await activate(database, 0)
    await drop(database, "main", "ids", ["m5"])
    thread = await thread_of(database)
    assert (thread.observed_seq, thread.buffered_seq) == (9, 9)
    assert [row.text for row in await listed(database, "active")] == ["upto 3", "upto 9"]
    await changed(database, 4, 10)
    (gap,) = await database.read(observations.gaps, ANA, thread.thread_uid)
    assert (gap.from_seq, gap.to_seq) == (4, 6)


async def test_observations_are_their_own_scopes(database: Database) -> None:
    await ten(database)
    await note(database, 3, "mine")
    uid = (await thread_of(database)).thread_uid
    assert await database.read(observations.read, BEN, uid, "buffered", "active") == []
    assert await database.read(observations.active_tokens, BEN, uid) == 0
    await database.write(observations.changed, BEN, uid, [1], now=NOW)
    assert [row.text for row in await listed(database, "buffered")] == ["mine"]
