"""Codes that are kept in memory are those of the file, whoever changes it."""

import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.index_rows import RowIdArray
from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import scope_token
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.sqlite import driver, search, vector_cache
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.drivers.sqlite.vector_cache import CodeCache
from layerlore.storage.index import vectors

from ...conformance.building import ANA, BEN, draft, drop, execute, only, say
from ...conformance.vectoring import MODEL, code_of, embed_all, pending, put, unit

pytestmark = pytest.mark.anyio

ASKED = code_of(unit(seed=99)[0])
CHANGES = "SELECT value FROM installation WHERE name = 'vectors_removed'"


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[tuple[SqliteDatabase, SqliteDatabase]]:
    """The same file opened twice, as by two processes."""
    first = await SqliteDatabase.open(str(tmp_path / "memory.db"), readers=1)
    second = await SqliteDatabase.open(str(tmp_path / "memory.db"), readers=2)
    yield first, second
    await second.close()
    await first.close()


async def by_statement(tx: Tx, scope: Scope, most: int) -> RowIdArray:
    token = scope_token(scope)
    found = await tx.scalars(search.NEAREST, scope_token=token, other_token=token, model=MODEL, code=ASKED, most=most)
    return np.array(found, np.int64)


async def check(database: SqliteDatabase, scope: Scope = ANA, most: int = 5) -> int:
    """Hold what is found in memory against the statement; returns how many rows there are."""
    for _ in range(2):
        found = await database.read(vectors.nearest, scope, MODEL, ASKED, most=most, kinds=("message",))
        assert found.tolist() == (await database.read(by_statement, scope, most)).tolist()
    return len(await database.read(by_statement, scope, 10_000))


async def test_what_another_process_adds_removes_and_rewrites_is_seen(
    files: tuple[SqliteDatabase, SqliteDatabase],
) -> None:
    ours, others = files
    assert await check(ours) == 0
    await say(others, "main", *(draft(f"word{n}", id=f"m{n}") for n in range(40)))
    await say(others, "main", draft("word"), scope=BEN)
    assert await check(ours) == 0
    late = [row.row_id for row in await pending(others) if row.scope == ANA]
    await put(others, late[10:], unit(30))
    assert await check(ours) == 30
    await put(others, late[:10], unit(10, seed=1))
    assert await check(ours) == 40
    await drop(others, "main", "ids", ["m3", "m39"], erase=True)
    await say(others, "main", draft("more", id="more"), draft("and more", id="and more"))
    await embed_all(others, seed=2)
    assert await check(ours) == 40
    assert await check(ours, BEN) == 0
    # It gives the rows other ids of SQLite's own.
    assert await others.rewrite()
    await embed_all(others, scope=BEN, seed=3)
    await drop(others, "main", "ids", ["m5"], erase=True)
    assert await check(ours) == 39
    assert await check(ours, BEN) == 1
    assert await others.write_installation(vectors.forget_models, [], 1_000) == 40
    assert await check(ours) == 0


async def test_a_rewritten_file_has_another_schema_version(files: tuple[SqliteDatabase, SqliteDatabase]) -> None:
    ours, others = files
    before = await only(ours, "SELECT schema_version FROM pragma_schema_version")
    await others.rewrite()
    assert await only(ours, "SELECT schema_version FROM pragma_schema_version") != before


async def test_each_vector_that_goes_is_counted_also_with_its_row(
    files: tuple[SqliteDatabase, SqliteDatabase],
) -> None:
    ours, _ = files
    await say(ours, "main", draft("apple", id="a"), draft("pear", id="b"))
    await embed_all(ours)
    await embed_all(ours, "another model")
    assert await only(ours, CHANGES) == "0"
    await drop(ours, "main", "ids", ["a"])
    assert await only(ours, CHANGES) == "2"


async def test_after_any_changes_the_nearest_are_those_of_the_statement(
    files: tuple[SqliteDatabase, SqliteDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_cache, "_MOST_NEW", 6)
    chance = random.Random(5)
    for scope in (ANA, BEN):
        await say(files[0], "main", draft("word", id="m0"), scope=scope)
    said = 1
    for number in range(60):
        database = chance.choice(files)
        scope = chance.choice([ANA, BEN])
        match chance.randrange(6):
            case 0 | 1 | 2:
                count = chance.randint(1, 8)
                await say(database, "main", *(draft("word", id=f"m{said + n}") for n in range(count)), scope=scope)
                said += count
            case 3 | 4:
                await embed_all(database, scope=scope, seed=number)
            case _:
                ids = [f"m{chance.randrange(said)}" for _ in range(2)]
                with contextlib.suppress(NotFound):
                    await drop(database, "main", "ids", ids, scope=scope, erase=True)
        for each in files:
            await check(each, chance.choice([ANA, BEN]), most=chance.choice([1, 5, 1_000]))


async def test_what_is_not_committed_is_never_kept(files: tuple[SqliteDatabase, SqliteDatabase]) -> None:
    ours, _ = files
    await say(ours, "main", *(draft(f"word{n}") for n in range(5)))
    await embed_all(ours)

    async def remove_and_fail(tx: Tx, scope: Scope) -> None:
        await execute(tx, "DELETE FROM search_vectors")
        assert not len(await vectors.nearest(tx, scope, MODEL, ASKED, most=5))
        raise ValueError("it fails")

    with pytest.raises(ValueError, match="it fails"):
        await ours.write(remove_and_fail, ANA)
    assert await check(ours) == 5


async def test_scopes_that_were_not_asked_for_long_make_room_and_large_ones_are_not_kept(
    files: tuple[SqliteDatabase, SqliteDatabase],
) -> None:
    ours, _ = files
    for scope, count in ((ANA, 10), (BEN, 30)):
        await say(ours, "main", *(draft("word") for _ in range(count)), scope=scope)
        await embed_all(ours, scope=scope)
    each = 8 + len(ASKED)
    cache = CodeCache(most_bytes=50 * each)

    async def find(tx: Tx, scope: Scope) -> bool:
        return await cache.find(tx, scope_token(scope), MODEL, len(ASKED)) is not None

    assert await ours.read(find, ANA)
    assert await ours.read(find, BEN)
    assert not await ours.read(find, BEN)
    assert await ours.read(find, ANA)


async def test_codes_of_any_length_are_compared(files: tuple[SqliteDatabase, SqliteDatabase]) -> None:
    ours, _ = files
    await say(ours, "main", *(draft(f"word{n}") for n in range(20)))
    row_ids = [row.row_id for row in await pending(ours)]
    floats = unit(20, dimension=100)
    await put(ours, row_ids, floats)
    request = unit(seed=7, dimension=100)[0]
    expected = sorted(range(20), key=lambda at: (int(((floats[at] > 0) != (request > 0)).sum()), row_ids[at]))
    found = await ours.read(vectors.nearest, ANA, MODEL, code_of(request), most=20)
    assert found.tolist() == [row_ids[at] for at in expected]


def test_new_codes_are_looked_for_behind_the_last_row_alone(tmp_path: Path) -> None:
    connection = driver.connect(str(tmp_path / "memory.db"), synchronous="OFF")
    try:
        connection.execute(
            "CREATE TABLE search_vectors (row_id, model, scope_token, code, PRIMARY KEY (row_id, model))"
        )
        connection.execute("CREATE INDEX search_vectors_codes ON search_vectors (scope_token, model, row_id, code)")
        values = {"last": 1, "scope_token": "t", "model": MODEL}
        steps = connection.execute(f"EXPLAIN QUERY PLAN {vector_cache._NEW}", values).fetchall()
    finally:
        connection.close()
    assert [step[3] for step in steps] == ["SEARCH search_vectors USING INTEGER PRIMARY KEY (rowid>?)"]
