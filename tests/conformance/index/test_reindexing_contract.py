"""Rows of the index that older rules made: found, and made anew from their messages."""

import pytest

from layerlore.storage.core.records import IndexedText, Message, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.index import vectors
from layerlore.storage.index.lexical import TEXT_VERSION
from layerlore.storage.messages import indexed_rows
from layerlore.storage.removal import deletions

from ..building import ANA, BEN, NOW, draft, drop, execute, having, indexed, only, say, search_text, uid
from ..vectoring import embed_all, pending

pytestmark = pytest.mark.anyio


async def grow_old(database: Database) -> None:
    """As if older rules had made every row."""
    await database.write_installation(execute, "UPDATE search_rows SET text_version = 1")


async def stale(database: Database) -> list[tuple[Scope, str, int]]:
    found = await database.read_installation(vectors.stale, after=0, most=100)
    assert [row.row_id for row in found] == sorted(row.row_id for row in found)
    return [(row.scope, row.thread_uid, row.seq) for row in found]


async def test_rows_of_older_rules_are_given_until_they_are_made_anew(database: Database) -> None:
    uid = (await say(database, "main", *(draft(f"word{n}") for n in range(4)))).thread.thread_uid
    assert await stale(database) == []
    await grow_old(database)
    other = (await say(database, "main", draft("word"), scope=BEN)).thread.thread_uid
    assert await stale(database) == [(ANA, uid, seq) for seq in (1, 2, 3, 4)]
    first, *_ = await database.read_installation(vectors.stale, after=0, most=1)
    assert [row.seq for row in await database.read_installation(vectors.stale, after=first.row_id, most=2)] == [2, 3]

    def chunked(message: Message) -> IndexedText:
        return indexed("again", search_text(message).chunks[0])

    assert await database.write(indexed_rows.rebuild_rows, ANA, uid, [2, 3, 9], chunked) == 2
    assert await stale(database) == [(ANA, uid, 1), (ANA, uid, 4)]
    assert [message.seq for message in await having(database, "again")] == [3, 2]
    assert [message.seq for message in await having(database, "word2")] == [3]
    assert await only(database, "SELECT count(*) FROM search_rows WHERE seq IN (2, 3)") == 4
    assert await database.write(indexed_rows.rebuild_rows, BEN, uid, [1, 4], chunked) == 0
    assert await database.write(indexed_rows.rebuild_rows, BEN, other, [1], chunked) == 1


async def test_a_row_made_anew_waits_for_a_new_vector(database: Database) -> None:
    uid = (await say(database, "main", draft("apple"))).thread.thread_uid
    before = await embed_all(database)
    await database.write(indexed_rows.rebuild_rows, ANA, uid, [1], search_text)
    assert await only(database, "SELECT count(*) FROM search_vectors") == 0
    assert min(row.row_id for row in await pending(database)) > max(before)


async def test_nothing_deleted_is_indexed_again(database: Database) -> None:
    thread = (await say(database, "main", draft("apple", id="a"), draft("pear"))).thread
    await drop(database, "main", "ids", ["a"])
    assert await database.write(indexed_rows.rebuild_rows, ANA, thread.thread_uid, [1, 2], search_text) == 1
    assert await having(database, "apple") == []
    await database.write(deletions.delete_thread, ANA, "main", deletion_uid=uid(), erase=False, now=NOW)
    await say(database, "main", draft("plum"))
    assert await database.write(indexed_rows.rebuild_rows, ANA, thread.thread_uid, [1, 2], search_text) == 0
    assert await having(database, "pear") == []


async def test_rows_of_older_rules_are_found_and_get_new_ids_when_they_are_made_anew(database: Database) -> None:
    uid = (await say(database, "main", *(draft("walrus") for _ in range(3)))).thread.thread_uid
    await grow_old(database)
    newest = await only(database, "SELECT max(row_id) FROM search_rows")
    assert len(await having(database, "walrus")) == 3
    assert await database.write(indexed_rows.rebuild_rows, ANA, uid, [1, 2, 3], search_text) == 3
    assert await stale(database) == []
    assert len(await having(database, "walrus")) == 3
    assert await only(database, "SELECT min(text_version) FROM search_rows") == TEXT_VERSION
    assert await only(database, "SELECT min(row_id) FROM search_rows") > newest
