"""The rows of the index: their sessions, what stands around them, which pass filters, and their messages."""

from dataclasses import replace

import numpy as np
import pytest

from layerlore.storage.core.index_rows import IndexedRow
from layerlore.storage.core.records import ROLES, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.session_numbers import SESSION_GAP_MS
from layerlore.storage.messages import indexed_rows

from ..building import ANA, BEN, NOW, draft, drop, execute, indexed, rows, say

pytestmark = pytest.mark.anyio

HOUR = SESSION_GAP_MS // 6


async def places(database: Database) -> dict[tuple[str, int, int], int]:
    """The row ids by thread, seq and chunk."""
    sql = (
        "SELECT thread_id, seq, chunk, row_id FROM search_rows JOIN threads"
        " USING (tenant_id, agent_id, resource_id, thread_uid)"
    )
    return {(row[0], row[1], row[2]): row[3] for row in await database.read_installation(rows, sql)}


async def around(database: Database, *row_ids: int, scope: Scope = ANA) -> list[tuple[int, int]]:
    """The seqs and chunks around rows."""
    found = await database.read(indexed_rows.around, scope, np.array(row_ids, np.int64))
    assert list(found) == sorted(found, key=lambda row: (row.thread_uid, row.seq, row.chunk))
    return [(row.seq, row.chunk) for row in found]


async def sessions(database: Database, thread_id: str = "main") -> dict[int, int]:
    sql = (
        "SELECT seq, search_rows.session_seq FROM search_rows JOIN threads USING (tenant_id, agent_id, resource_id, thread_uid)"
        f" WHERE thread_id = '{thread_id}' ORDER BY seq"
    )
    return {row[0]: row[1] for row in await database.read_installation(rows, sql)}


async def test_a_row_comes_with_the_first_chunks_of_the_messages_near_it(database: Database) -> None:
    long = replace(draft(), indexed=indexed("one", "two", "three"))
    await say(database, "main", *(draft(f"word{n}") for n in range(4)), long, *(draft(f"more{n}") for n in range(5)))
    await say(database, "other", *(draft(f"word{n}") for n in range(9)))
    at = await places(database)
    assert await around(database, at["main", 1, 0]) == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert await around(database, at["main", 5, 2]) == [
        *((seq, 0) for seq in (2, 3, 4, 5)),
        (5, 2),
        *((seq, 0) for seq in (6, 7, 8)),
    ]
    assert await around(database, at["main", 5, 1], at["main", 5, 0], at["main", 6, 0]) == [
        *((seq, 0) for seq in (2, 3, 4, 5)),
        (5, 1),
        *((seq, 0) for seq in (6, 7, 8, 9)),
    ]
    assert await around(database) == []
    assert await around(database, 10**9) == []
    assert await around(database, at["main", 1, 0], scope=BEN) == []


async def test_rows_of_several_threads_are_ordered_and_each_is_there_once(database: Database) -> None:
    for thread_id in ("one", "two"):
        await say(database, thread_id, *(draft(f"word{n}") for n in range(3)))
    found = await database.read(indexed_rows.around, ANA, list((await places(database)).values()))
    assert len(found) == len({row.row_id for row in found}) == 6
    assert list(found) == sorted(found, key=lambda row: (row.thread_uid, row.seq))


async def test_deleted_neighbours_are_not_around(database: Database) -> None:
    await say(database, "main", draft("one"), draft("two", id="b"), draft("three"))
    first = (await places(database))["main", 1, 0]
    await drop(database, "main", "ids", ["b"])
    assert await around(database, first) == [(1, 0), (3, 0)]


async def test_a_row_tells_who_spoke_when_and_how_much(database: Database) -> None:
    made = await say(database, "main", draft("apple pear", role="assistant", name="Kim", said_at=NOW - 9), draft("no"))
    first, second = await database.read(indexed_rows.around, ANA, [(await places(database))["main", 1, 0]])
    uid = made.thread.thread_uid
    assert first == IndexedRow(first.row_id, uid, 1, 0, "assistant", "Kim", NOW - 9, 10, 1, 0, 0, 0)
    assert second == IndexedRow(second.row_id, uid, 2, 0, "user", None, NOW, 2, 1, 0, 0, 0)


async def test_a_row_tells_how_far_its_message_only_asks_or_says_nothing(database: Database) -> None:
    plain = draft("is she here")
    made = await say(
        database, "main", replace(plain, indexed=replace(plain.indexed, asks=90, empty=80, content_words=7))
    )

    async def read() -> tuple[int, int, int]:
        (row,) = await database.read(indexed_rows.around, ANA, list((await places(database)).values()))
        return row.asks, row.empty, row.content_words

    assert await read() == (90, 80, 7)
    search_text = lambda message: replace(plain.indexed, asks=30, empty=20, content_words=5)  # noqa: E731
    await database.write(indexed_rows.rebuild_rows, ANA, made.thread.thread_uid, [1], search_text)
    assert await read() == (30, 20, 5)


async def test_six_hours_of_silence_begin_a_session(database: Database) -> None:
    times = [NOW, NOW + 5 * HOUR, NOW + 11 * HOUR - 1, NOW + 17 * HOUR - 1, NOW + 17 * HOUR, NOW - 90 * HOUR]
    for time in times[:3]:
        await say(database, "main", draft("word", said_at=time))
    await say(database, "main", *(draft("word", said_at=time) for time in times[3:]))
    await say(database, "other", draft("word", said_at=NOW))
    assert await sessions(database) == {1: 1, 2: 1, 3: 1, 4: 4, 5: 4, 6: 6}
    assert await sessions(database, "other") == {1: 1}


async def test_a_threads_own_marks_make_its_sessions(database: Database) -> None:
    marks = [None, "a", "a", None, "a", "b", "b", None, None, "c"]
    hours = [0, 1, 50, 51, 99, 99, 99, 100, 120, 120]
    drafts = [
        draft("word", said_at=NOW + hour * HOUR, metadata={"session": mark} if mark else {})
        for mark, hour in zip(marks, hours, strict=True)
    ]
    await say(database, "main", *drafts)
    assert list((await sessions(database)).values()) == [1, 2, 2, 2, 2, 6, 6, 6, 9, 10]


async def test_all_chunks_of_a_message_and_a_message_made_anew_keep_its_session(database: Database) -> None:
    long = replace(draft(id="long"), indexed=indexed("one", "two"))
    await say(database, "main", draft("word", said_at=NOW - 50 * HOUR), long, draft("word"), draft("word", id="d"))
    kept = "SELECT DISTINCT session_seq FROM search_rows WHERE seq = 2"
    assert await database.read_installation(rows, kept) == [(2,)]
    await say(database, "main", draft("new", id="d"), draft("new", id="long"), replace_known=True)
    assert await sessions(database) == {1: 1, 2: 2, 3: 2, 4: 2}


async def passing(
    database: Database,
    *,
    thread_id: str | None = None,
    since: int | None = None,
    until: int | None = None,
    roles: tuple[str, ...] = ROLES,
) -> list[str]:
    """The ids of the messages whose rows pass."""

    async def look(tx: Tx, scope: Scope) -> list[str]:
        row_ids = await indexed_rows.passing(tx, ANA, thread_id=thread_id, since=since, until=until, roles=roles)
        assert row_ids.dtype == np.int64
        assert row_ids.tolist() == sorted(set(row_ids.tolist()))
        by_id = {row.row_id: (row.thread_uid, row.seq) for row in await indexed_rows.around(tx, ANA, row_ids)}
        keys = [by_id[row_id] for row_id in row_ids.tolist()]
        found = await indexed_rows.messages_of(tx, ANA, keys)
        return [found[key].id for key in keys]

    return await database.read(look, ANA)


async def test_rows_are_narrowed_by_thread_role_and_time(database: Database) -> None:
    await say(
        database,
        "one",
        draft("apple", id="a", said_at=NOW),
        draft("apple", id="b", role="assistant", said_at=NOW + 10),
        draft("apple", id="c", said_at=NOW + 20),
    )
    await say(database, "two", draft("apple", id="d", said_at=NOW + 30))
    await say(database, "one", draft("apple", id="e"), scope=BEN)
    assert await passing(database) == ["a", "b", "c", "d"]
    assert await passing(database, thread_id="one") == ["a", "b", "c"]
    assert await passing(database, thread_id="none") == []
    assert await passing(database, roles=("assistant",)) == ["b"]
    assert await passing(database, roles=("tool", "system")) == []
    assert await passing(database, since=NOW + 10) == ["b", "c", "d"]
    assert await passing(database, until=NOW + 10) == ["a", "b"]
    assert await passing(database, thread_id="one", since=NOW + 10, until=NOW + 20, roles=("user",)) == ["c"]
    assert await passing(database, since=NOW + 20, until=NOW + 10) == []


async def test_times_are_compared_with_what_was_said_not_with_what_was_stored(database: Database) -> None:
    await say(database, "main", draft("pear", said_at=NOW), draft("apple", id="a", said_at=5_000))
    assert await passing(database, until=5_000) == ["a"]
    assert await passing(database, since=0, until=4_999) == []


async def test_a_deleted_message_passes_no_more_and_a_thread_made_again_is_another(database: Database) -> None:
    await say(database, "main", draft("apple", id="a"), draft("pear", id="b"))
    await drop(database, "main", "ids", ["a"])
    assert await passing(database, thread_id="main") == ["b"]
    await database.write_installation(execute, "DELETE FROM threads")
    await say(database, "main", draft("plum", id="c"))
    assert await passing(database, thread_id="main") == ["c"]


async def test_a_place_gives_its_visible_message_with_its_thread(database: Database) -> None:
    one = (await say(database, "one", draft("apple", id="a", metadata={"k": 1}), draft(id="b"))).thread.thread_uid
    two = (await say(database, "two", draft("pear", id="c"))).thread.thread_uid
    await drop(database, "one", "ids", ["b"])
    keys = [(two, 1), (one, 1), (one, 2), (one, 7), ("none", 1), (one, 1)]
    found = await database.read(indexed_rows.messages_of, ANA, keys)
    assert {key: (message.thread_id, message.seq, message.id) for key, message in found.items()} == {
        (one, 1): ("one", 1, "a"),
        (two, 1): ("two", 1, "c"),
    }
    assert (found[one, 1].parts, found[one, 1].metadata) == ([{"type": "text", "text": "apple"}], {"k": 1})
    assert await database.read(indexed_rows.messages_of, ANA, []) == {}
    assert await database.read(indexed_rows.messages_of, BEN, keys) == {}
