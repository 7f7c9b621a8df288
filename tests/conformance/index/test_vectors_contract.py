"""Vectors: stored for rows that are there, found by their codes in their own scope, gone with their rows."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from layerlore.storage.core.transaction import Database
from layerlore.storage.index import vectors
from layerlore.storage.index.vectors import PendingRow, Progress
from layerlore.storage.removal import deletions

from ..building import ANA, BEN, NOW, draft, drop, indexed, only, rows, say, uid
from ..vectoring import MODEL, Floats, code_of, embed_all, new, pending, put, unit

pytestmark = pytest.mark.anyio

COUNT = "SELECT count(*) FROM search_vectors"


async def test_rows_that_lack_a_vector_are_given_in_order_and_those_that_have_one_are_not(database: Database) -> None:
    made = await say(database, "main", draft("apple"), draft("!?"), draft("pear"))
    other = await say(database, "main", draft("plum"), scope=BEN)
    waiting = await pending(database)
    ids = [row.row_id for row in waiting]
    assert ids == sorted(ids)
    assert waiting == [
        PendingRow(ids[0], ANA, made.thread.thread_uid, 1, 0),
        PendingRow(ids[1], ANA, made.thread.thread_uid, 3, 0),
        PendingRow(ids[2], BEN, other.thread.thread_uid, 1, 0),
    ]
    assert await pending(database, after=ids[0], most=1) == waiting[1:2]
    assert await put(database, ids[1:2], unit()) == 1
    assert await pending(database) == [waiting[0], waiting[2]]
    assert await pending(database, "another model") == waiting
    assert await database.read(vectors.progress, ANA, MODEL) == Progress(total=2, done=1)
    assert await database.read(vectors.progress, BEN, MODEL) == Progress(total=1, done=0)
    assert await database.read_installation(vectors.progress_everywhere, MODEL) == Progress(total=3, done=1)


async def test_each_chunk_of_a_message_has_its_own_vector(database: Database) -> None:
    await say(database, "main", replace(draft(), indexed=indexed("one", "", "three")))
    waiting = await pending(database)
    assert [(row.seq, row.chunk) for row in waiting] == [(1, 0), (1, 2)]
    assert len(await embed_all(database)) == 2


def assert_rounded(floats: Floats, exact: Floats) -> None:
    """What a transaction that only reads has in memory is rounded to 16 bits."""
    assert floats.shape == exact.shape
    assert np.abs(floats - exact).max() <= 1 / 32_767


async def test_vectors_come_back_within_the_rounding(database: Database) -> None:
    await say(database, "main", *(draft(f"word{n}") for n in range(5)))
    made = await embed_all(database)
    ids = sorted(made)
    row_ids, floats = await database.read(vectors.of_rows, ANA, MODEL, np.array([ids[3], ids[0], 10**9]))
    assert row_ids.dtype == np.int64
    assert floats.dtype == np.float32
    assert row_ids.tolist() == [ids[0], ids[3]]
    assert_rounded(floats, np.stack([made[ids[0]], made[ids[3]]]))
    _, in_a_write = await database.write(vectors.of_rows, ANA, MODEL, [ids[0], ids[3]])
    assert np.array_equal(in_a_write, floats)
    none, empty = await database.read(vectors.of_rows, ANA, "another model", ids)
    assert (none.shape, empty.shape) == ((0,), (0, 0))


async def test_a_row_keeps_its_first_vector_and_a_row_that_is_gone_gets_none(database: Database) -> None:
    await say(database, "main", draft("apple", id="a"), draft("pear", id="b"))
    first, second = (row.row_id for row in await pending(database))
    await drop(database, "main", "ids", ["b"])
    assert await put(database, [first, second], unit(2)) == 1
    assert await put(database, [first, second], unit(2, seed=1)) == 0
    _, floats = await database.read(vectors.of_rows, ANA, MODEL, [first, second])
    assert_rounded(floats, unit(2)[:1])
    assert await database.write(vectors.put, ANA, MODEL, 64, []) == 0


async def test_a_vector_of_a_replaced_message_never_lands_on_the_new_one(database: Database) -> None:
    await say(database, "main", draft("apple", id="a"))
    (before,) = await pending(database)
    await say(database, "main", draft("pear", id="a"), replace_known=True)
    assert await put(database, [before.row_id], unit()) == 0
    assert await only(database, COUNT) == 0
    (after,) = await pending(database)
    assert after.row_id > before.row_id
    assert await put(database, [after.row_id], unit()) == 1
    await say(database, "main", draft("plum", id="a"), replace_known=True)
    assert await only(database, COUNT) == 0


async def test_vectors_go_with_deleted_messages_and_threads(database: Database) -> None:
    for thread_id in ("one", "two"):
        await say(database, thread_id, draft("apple", id="a"), draft("pear", id="b"))
    await embed_all(database)
    await embed_all(database, "another model")
    assert await only(database, COUNT) == 8
    await drop(database, "one", "ids", ["a"])
    assert await only(database, COUNT) == 6
    await database.write(deletions.delete_thread, ANA, "two", deletion_uid=uid(), erase=False, now=NOW)
    assert await only(database, COUNT) == 2


async def test_vectors_that_are_put_twice_at_once_are_stored_once(database: Database) -> None:
    await say(database, "main", *(draft(f"word{n}") for n in range(20)))
    ids = [row.row_id for row in await pending(database)]
    counts = await asyncio.gather(*(put(database, ids, unit(20, seed=n)) for n in range(3)))
    assert sum(counts) >= 20
    assert await only(database, COUNT) == 20


async def test_the_nearest_codes_come_first_and_of_equals_the_oldest(database: Database) -> None:
    await say(database, "main", *(draft(f"word{n}") for n in range(30)))
    made = await embed_all(database)
    request = unit(seed=9)[0]

    def distance(row_id: int) -> int:
        return int(((made[row_id] > 0) != (request > 0)).sum())

    expected = sorted(made, key=lambda row_id: (distance(row_id), row_id))
    found = await database.read(vectors.nearest, ANA, MODEL, code_of(request), most=12)
    assert found.dtype == np.int64
    assert found.tolist() == expected[:12]
    among = np.array(expected[::3])
    some = await database.read(vectors.nearest_among, ANA, MODEL, code_of(request), among, most=5)
    assert some.tolist() == expected[::3][:5]
    assert len(await database.read(vectors.nearest_among, ANA, MODEL, code_of(request), [], most=5)) == 0
    assert len(await database.read(vectors.nearest, ANA, "another model", code_of(request), most=5)) == 0


async def test_a_scope_finds_its_own_vectors_only(database: Database) -> None:
    made = {}
    for scope in (ANA, BEN):
        await say(database, "main", draft("apple"), draft("pear"), scope=scope)
        made[scope] = list(await embed_all(database, scope=scope))
    code = code_of(unit()[0])
    for scope, other in ((ANA, BEN), (BEN, ANA)):
        assert sorted(await database.read(vectors.nearest, scope, MODEL, code, most=9)) == made[scope]
        assert len(await database.read(vectors.nearest_among, scope, MODEL, code, made[other], most=9)) == 0
        ids, _ = await database.read(vectors.of_rows, scope, MODEL, [*made[ANA], *made[BEN]])
        assert ids.tolist() == made[scope]


async def test_codes_and_floats_together_find_what_an_exact_scan_finds(database: Database) -> None:
    """Clustered as real text is: topics, and within a topic much nearer to each other than to the rest."""
    count, dimension, best = 3_000, 256, 10
    topics, own = unit(60, seed=1, dimension=dimension), unit(count + 40, seed=2, dimension=dimension)
    drawn = np.random.default_rng(3).integers(0, len(topics), count + 40)
    floats = topics[drawn] + 1.2 * own
    floats = (floats / np.linalg.norm(floats, axis=1, keepdims=True)).astype(np.float32)
    stored, request = floats[:count], floats[count:]
    await say(database, "main", *(draft(f"word{n}") for n in range(count)))
    ids = [row.row_id for row in await pending(database, most=count)]
    assert await put(database, ids, stored) == count
    hits = 0
    for query in request:
        near = await database.read(vectors.nearest, ANA, MODEL, code_of(query), most=200)
        row_ids, candidates = await database.read(vectors.of_rows, ANA, MODEL, near)
        found = row_ids[np.argsort(-(candidates @ query))[:best]]
        exact = np.array(ids)[np.argsort(-(stored @ query))[:best]]
        hits += len(set(found.tolist()) & set(exact.tolist()))
    assert hits / (best * len(request)) >= 0.99


async def test_vectors_of_other_models_are_forgotten_a_portion_at_a_time(database: Database) -> None:
    await say(database, "main", *(draft(f"word{n}") for n in range(5)))
    for model in ("old", "older", MODEL):
        await embed_all(database, model)
    portions = [await database.write_installation(vectors.forget_models, [MODEL], most=4) for _ in range(4)]
    assert portions == [4, 4, 2, 0]
    assert await database.read_installation(rows, "SELECT DISTINCT model FROM search_vectors") == [(MODEL,)]
    assert await only(database, COUNT) == 5
    assert await database.write_installation(vectors.forget_models, [], most=100) == 5


async def test_a_vectors_row_says_what_it_is(database: Database) -> None:
    await say(database, "main", draft("apple"))
    (waiting,) = await pending(database)
    vector = unit()[0]
    await database.write(vectors.put, ANA, MODEL, 64, [new(waiting.row_id, vector)])
    stored = await database.read_installation(rows, "SELECT model, dimension, vector FROM search_vectors")
    (_, read_back) = await database.read(vectors.of_rows, ANA, MODEL, [waiting.row_id])
    assert [row[:2] for row in stored] == [(MODEL, 64)]
    assert len(stored[0][2]) == 2 * 64
    assert np.abs(read_back[0] - vector).max() < 1e-4


async def test_vectors_that_were_stored_in_32_bits_are_read_beside_those_of_16(database: Database) -> None:
    await say(database, "main", draft("apple"), draft("pear"))
    first, second = await pending(database)
    before, after = unit(), unit()
    old = replace(new(first.row_id, before[0]), vector=before[0].astype("<f4").tobytes())
    await database.write(vectors.put, ANA, MODEL, 64, [old, new(second.row_id, after[0])])
    _, read_back = await database.read(vectors.of_rows, ANA, MODEL, [first.row_id, second.row_id])
    assert np.abs(read_back - np.concatenate([before[:1], after[:1]])).max() < 1e-4
