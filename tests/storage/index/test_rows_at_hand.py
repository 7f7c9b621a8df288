"""The rows of the index and the vectors that are kept in memory are those of the file, whoever changes it."""

import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.index_rows import IndexedRow, IndexedRows, RowIdArray
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.sqlite import row_cache
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.drivers.sqlite.row_cache import RowCache, ScopeRows
from layerlore.storage.drivers.sqlite.vector_cache import Stamp, VectorCache, Vectors
from layerlore.storage.index import vectors
from layerlore.storage.messages import indexed_rows

from ...conformance.building import ANA, BEN, draft, drop, execute, indexed, rows, say
from ...conformance.vectoring import MODEL, embed_all

pytestmark = pytest.mark.anyio


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[tuple[SqliteDatabase, SqliteDatabase]]:
    """The same file opened twice, as by two processes."""
    first = await SqliteDatabase.open(str(tmp_path / "memory.db"), readers=1)
    second = await SqliteDatabase.open(str(tmp_path / "memory.db"), readers=2)
    yield first, second
    await second.close()
    await first.close()


async def look(tx: Tx, scope: Scope, row_ids: list[int]) -> tuple[list[IndexedRow], list[int], Vectors]:
    found, floats = await vectors.of_rows(tx, scope, MODEL, row_ids)
    return sorted(await indexed_rows.around(tx, scope, row_ids)), found.tolist(), floats


async def check(database: SqliteDatabase, scope: Scope = ANA, some: int = 2) -> tuple[int, int]:
    """Hold what is found in memory around every ``some``-th row against what a transaction that may write reads; how many
    rows and vectors that is."""
    row_ids = [row_id for (row_id,) in await database.read_installation(rows, "SELECT row_id FROM search_rows")][::some]
    read = await database.write(look, scope, row_ids)
    for _ in range(3):
        found = await database.read(look, scope, row_ids)
        assert found[:2] == read[:2]
        # What is kept in memory is rounded to 16 bits.
        assert found[2].shape == read[2].shape
        assert np.abs(found[2] - read[2]).max(initial=0) <= 1 / 32_767
    return len(read[0]), len(read[1])


async def test_what_another_process_adds_replaces_dates_and_removes_is_seen(
    files: tuple[SqliteDatabase, SqliteDatabase],
) -> None:
    ours, others = files
    assert await check(ours) == (0, 0)
    await say(others, "main", *(draft(f"word{n}", id=f"known{n}", name="Kim" if n % 3 else None) for n in range(20)))
    await say(others, "other", draft("one"), draft("two", role="assistant"))
    await say(others, "main", draft("word"), scope=BEN)
    assert await check(ours, some=1) == (22, 0)
    await embed_all(others)
    assert await check(ours, some=1) == (22, 22)
    await say(others, "main", draft("more", name="Ada"), draft("and more"))
    assert await check(ours, some=1) == (24, 22)
    assert await check(ours, BEN, some=1) == (1, 0)
    await others.write_installation(execute, "UPDATE search_rows SET said_at = said_at + 5")
    assert await check(ours, some=1) == (24, 22)
    await drop(others, "main", "ids", ["known3", "known19"], erase=True)
    assert await check(ours, some=1) == (22, 20)
    assert await others.rewrite()
    assert await others.write_installation(vectors.forget_models, [], 1_000) == 20
    assert await check(ours, some=1) == (22, 0)


async def test_after_any_changes_they_are_those_of_the_file(
    files: tuple[SqliteDatabase, SqliteDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_cache, "_MOST_NEW", 6)
    chance = random.Random(8)
    for scope in (ANA, BEN):
        await say(files[0], "main", draft("word", id="m0"), scope=scope)
    said = 1
    for number in range(40):
        database, scope = chance.choice(files), chance.choice([ANA, BEN])
        match chance.randrange(6):
            case 0 | 1 | 2:
                long = replace(indexed("word"), chunks=("word", "and", "more")[: chance.randint(1, 3)])
                new = [replace(draft("word", id=f"m{said + n}"), indexed=long) for n in range(chance.randint(1, 8))]
                await say(database, chance.choice(["main", "other"]), *new, scope=scope)
                said += len(new)
            case 3 | 4:
                await embed_all(database, scope=scope, seed=number)
            case _:
                with contextlib.suppress(NotFound):
                    await drop(database, "main", "ids", [f"m{chance.randrange(said)}"], scope=scope, erase=True)
        for each in files:
            await check(each, chance.choice([ANA, BEN]), some=chance.choice([1, 2, 7]))


async def test_what_is_not_committed_is_never_kept(files: tuple[SqliteDatabase, SqliteDatabase]) -> None:
    ours, _ = files
    await say(ours, "main", draft("apple"), draft("pear"))
    await embed_all(ours)
    assert await check(ours, some=1) == (2, 2)

    async def remove_and_fail(tx: Tx, scope: Scope) -> None:
        await execute(tx, "DELETE FROM search_rows")
        assert not len(await indexed_rows.around(tx, scope, [1, 2]))
        raise ValueError("it fails")

    with pytest.raises(ValueError, match="it fails"):
        await ours.write(remove_and_fail, ANA)
    assert await check(ours, some=1) == (2, 2)


async def test_a_scope_that_is_too_large_is_read_each_time(files: tuple[SqliteDatabase, SqliteDatabase]) -> None:
    ours, _ = files
    cache = RowCache(most_bytes=1_000)
    await say(ours, "main", *(draft("apple") for _ in range(20)))
    await say(ours, "main", draft("apple"), scope=BEN)

    async def find(scope: Scope) -> list[ScopeRows | None]:
        return [await ours.read(cache.find, scope) for _ in range(3)]

    assert await find(ANA) == [None, None, None]
    first, *others = await find(BEN)
    assert first is None
    assert [len(each.rows) for each in others if each] == [1, 1]


def test_numbers_of_any_size_are_kept() -> None:
    row = IndexedRow(1, "uid", 2**40, 0, "user", None, 5, 3, 1, 0, 0, 2)
    for others in ([], [row._replace(row_id=2, seq=7)]):
        assert list(IndexedRows.of([row, *others])) == [row, *others]
    assert ScopeRows.of(IndexedRows.of([row])).around(np.array([1, 2]), 3)[0] == row


async def test_vectors_that_were_not_asked_for_long_make_room() -> None:
    cache, stamp = VectorCache(most_bytes=2 * 4 * 10), Stamp("0", 1, 9)
    request: list[list[int]] = []

    async def read(row_ids: RowIdArray) -> tuple[RowIdArray, Vectors]:
        request.append(row_ids.tolist())
        return row_ids, np.repeat(row_ids[:, None] / 100, 4, axis=1).astype(np.float32)

    async def find(row_ids: range, stamp: Stamp = stamp, token: str = "t") -> None:
        found, floats = await cache.find(stamp, [token], "model", np.array(row_ids), read)
        assert found.tolist() == np.rint(100 * floats[:, 0]).astype(int).tolist() == list(row_ids)

    for row_ids in (range(8), range(4, 10), range(10), range(14), range(14), range(20)):
        await find(row_ids)
    assert request == [[*range(8)], [8, 9], [10, 11, 12, 13], [0, 1, 2, 3], [4, 5, 6, 7, *range(14, 20)]]
    await find(range(12, 14), token="another")
    await find(range(12, 14), Stamp("1", 1, 9))
    assert request[-2:] == [[12, 13], [12, 13]]
