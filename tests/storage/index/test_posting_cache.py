"""The rows of words that are kept in memory are those of the file, whoever changes it."""

import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.index_rows import RowIdArray
from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import KINDS, Kind
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.drivers.sqlite.row_cache import PostingCache, RowStamp
from layerlore.storage.index import lexical

from ...conformance.building import ANA, BEN, draft, drop, execute, only, say

pytestmark = pytest.mark.anyio

WORDS = ("apple", "pear", "plum")
COUNTED = "SELECT value FROM installation WHERE name = 'index_rows_removed'"


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[tuple[SqliteDatabase, SqliteDatabase]]:
    """The same file opened twice, as by two processes."""
    first = await SqliteDatabase.open(str(tmp_path / "memory.db"), readers=1)
    second = await SqliteDatabase.open(str(tmp_path / "memory.db"), readers=2)
    yield first, second
    await second.close()
    await first.close()


async def check(
    database: SqliteDatabase, scope: Scope = ANA, most: int = 100, kinds: tuple[Kind, ...] = KINDS
) -> dict[str, int]:
    """Hold what is found in memory against what a transaction that may write reads; how many rows each word has."""
    read = await database.write(lexical.postings, scope, WORDS, most=most, kinds=kinds)
    for _ in range(2):
        found = await database.read(lexical.postings, scope, WORDS, most=most, kinds=kinds)
        assert {word: rows.tolist() for word, rows in found.items()} == {
            word: rows.tolist() for word, rows in read.items()
        }
    return {word: len(rows) for word, rows in read.items()}


async def test_what_another_process_adds_replaces_and_removes_is_seen(
    files: tuple[SqliteDatabase, SqliteDatabase],
) -> None:
    ours, others = files
    assert await check(ours) == {"apple": 0, "pear": 0, "plum": 0}
    await say(others, "main", draft("apple", id="a"), draft("apple pear", id="b"), draft("plums", id="c"))
    await say(others, "main", draft("apple"), scope=BEN)
    assert await check(ours) == {"apple": 2, "pear": 1, "plum": 1}
    await say(others, "main", draft("pear", id="d"))
    assert await check(ours) == {"apple": 2, "pear": 2, "plum": 1}
    assert await check(ours, most=1) == {"apple": 1, "pear": 1, "plum": 1}
    await say(others, "main", draft("plum", id="a"), replace_known=True)
    assert await check(ours) == {"apple": 1, "pear": 2, "plum": 2}
    await drop(others, "main", "ids", ["b"], erase=True)
    assert await others.rewrite()
    await say(others, "main", draft("apple", id="e"))
    assert await check(ours) == {"apple": 1, "pear": 1, "plum": 2}
    assert await check(ours, BEN) == {"apple": 1, "pear": 0, "plum": 0}


async def test_after_any_changes_the_rows_are_those_of_the_file(
    files: tuple[SqliteDatabase, SqliteDatabase],
) -> None:
    chance = random.Random(3)
    for scope in (ANA, BEN):
        await say(files[0], "main", draft("apple", id="m0"), scope=scope)
    said = 1
    for _ in range(60):
        database, scope = chance.choice(files), chance.choice([ANA, BEN])
        if chance.random() < 0.7:
            texts = [" ".join(chance.sample(WORDS, 2)) for _ in range(chance.randint(1, 4))]
            drafts = [draft(text, id=f"m{said + n}") for n, text in enumerate(texts)]
            await say(database, "main", *drafts, scope=scope)
            said += len(texts)
        else:
            with contextlib.suppress(NotFound):
                await drop(database, "main", "ids", [f"m{chance.randrange(said)}"], scope=scope)
        for each in files:
            await check(each, chance.choice([ANA, BEN]), most=chance.choice([1, 3, 100]))


async def test_each_row_that_goes_is_counted(files: tuple[SqliteDatabase, SqliteDatabase]) -> None:
    ours, _ = files
    await say(ours, "main", draft("apple", id="a"), draft("pear", id="b"))
    assert await only(ours, COUNTED) == "0"
    await drop(ours, "main", "ids", ["a"])
    assert await only(ours, COUNTED) == "1"


async def test_what_is_not_committed_is_never_kept(files: tuple[SqliteDatabase, SqliteDatabase]) -> None:
    ours, _ = files
    await say(ours, "main", draft("apple"))

    async def remove_and_fail(tx: Tx, scope: Scope) -> None:
        await execute(tx, "DELETE FROM search_rows")
        assert not len((await lexical.postings(tx, scope, WORDS, most=9))["apple"])
        raise ValueError("it fails")

    with pytest.raises(ValueError, match="it fails"):
        await ours.write(remove_and_fail, ANA)
    assert (await check(ours))["apple"] == 1


async def test_a_migration_makes_all_rows_anew() -> None:
    cache = PostingCache()
    read: list[int] = []

    async def rows_behind(query: str, after: int) -> RowIdArray:
        read.append(after)
        return np.arange(after + 1, 6)

    for stamp in (
        RowStamp("0", 1, 3),
        RowStamp("0", 1, 5),
        RowStamp("0", 2, 5),
        RowStamp("1", 2, 5),
        RowStamp("1", 2, 4),
    ):
        await cache.find(stamp, "a word", 100, rows_behind)
    assert read == [0, 3, 0, 0, 0]


async def test_words_that_were_not_asked_for_long_make_room() -> None:
    cache, stamp = PostingCache(most_ids=50), RowStamp("0", 1, 40)
    read: list[str] = []

    async def rows_behind(query: str, after: int) -> RowIdArray:
        read.append(query)
        return np.arange(after + 1, 41)

    for query in ("one", "two", "two", "one"):
        assert (await cache.find(stamp, query, 100, rows_behind)).tolist() == list(range(1, 41))
    assert read == ["one", "two", "one"]
