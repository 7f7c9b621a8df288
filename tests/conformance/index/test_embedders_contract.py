"""What processes on one database agree on about embedders, and the way through every message, on both databases."""

import pytest

from layerlore.storage.core.transaction import Database
from layerlore.storage.index import vectors
from layerlore.storage.messages import place_rows
from layerlore.storage.messages.place_rows import FIRST, ThreadPlace

from ..building import ANA, BEN, draft, drop, everything, say

pytestmark = pytest.mark.anyio


async def lease(database: Database, holder: str, *, now: int, until: int, model: str = "m") -> bool:
    return await database.write_installation(vectors.take_lease, model, holder, now=now, until=until)


async def test_one_holder_at_a_time_has_a_models_lease(database: Database) -> None:
    assert await lease(database, "a", now=0, until=100)
    assert not await lease(database, "b", now=99, until=200)
    assert await lease(database, "b", now=0, until=100, model="another")
    assert await lease(database, "a", now=50, until=150)
    assert not await lease(database, "b", now=149, until=250)
    assert await lease(database, "b", now=150, until=250)
    assert not await lease(database, "a", now=200, until=300)


async def test_only_its_holder_returns_a_lease(database: Database) -> None:
    assert await lease(database, "a", now=0, until=100)
    await database.write_installation(vectors.return_lease, "m", "b")
    assert not await lease(database, "b", now=1, until=100)
    await database.write_installation(vectors.return_lease, "m", "a")
    assert await lease(database, "b", now=1, until=100)


async def test_embedders_in_use_are_noted_with_the_last_time(database: Database) -> None:
    assert await database.read_installation(vectors.last_used) == {}
    for model, now in (("use", 1), ("openai/x:y", 2), ("use", 3)):
        await database.write_installation(vectors.note_use, model, now)
    assert await database.read_installation(vectors.last_used) == {"use": 3, "openai/x:y": 2}


async def test_an_embedder_that_is_used_again_meanwhile_is_not_forgotten(database: Database) -> None:
    for model in ("one", "two"):
        await database.write_installation(vectors.note_use, model, 1)
    found = await database.read_installation(vectors.last_used)
    await database.write_installation(vectors.note_use, "two", 2)
    await database.write_installation(vectors.forget_use, found)
    assert await database.read_installation(vectors.last_used) == {"two": 2}


async def test_a_models_first_vectors_decide_its_dimension_until_it_is_forgotten(database: Database) -> None:
    assert await database.read_installation(vectors.dimension_of, "one") == 0
    await database.write_installation(vectors.note_use, "one", 1)
    assert await database.write_installation(vectors.agree_on_dimension, "one", 8) == 8
    assert await database.write_installation(vectors.agree_on_dimension, "one", 16) == 8
    assert await database.write_installation(vectors.agree_on_dimension, "two", 16) == 16
    assert await database.read_installation(vectors.dimension_of, "one") == 8
    await database.write_installation(vectors.forget_use, await database.read_installation(vectors.last_used))
    assert await database.read_installation(vectors.dimension_of, "one") == 0
    assert await database.read_installation(vectors.dimension_of, "two") == 16


async def test_every_visible_message_of_every_scope_is_on_the_way(database: Database) -> None:
    for scope in (ANA, BEN):
        for thread in ("one", "two"):
            await say(database, thread, *(draft(id=f"m{n}") for n in range(5)), scope=scope)
    await drop(database, "one", "ids", ["m1"], scope=ANA)
    found: dict[ThreadPlace, list[int]] = {}
    thread = FIRST
    while page := await database.read_installation(place_rows.threads_after, thread, 3):
        for thread in page:
            assert thread not in found
            seqs = found.setdefault(thread, [])
            while more := await database.read(place_rows.seqs_after, thread, seqs[-1] if seqs else 0, 2):
                seqs += more
    assert sorted(map(len, found.values())) == [4, 5, 5, 5]
    assert [1, 3, 4, 5] in found.values()
    assert {place.scope for place in found} == {ANA, BEN}
    assert await database.read_installation(place_rows.count_messages) == 19
    assert len(await everything(database, "one")) == 4
