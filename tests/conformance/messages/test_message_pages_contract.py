"""Reading a thread by page and by place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import ROLES, Role, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.messages import message_pages, windows
from layerlore.storage.messages.message_pages import Page

from ..building import ANA, BEN, draft, drop, examples, new_scope, say

pytestmark = pytest.mark.anyio


async def page(
    database: Database,
    *,
    scope: Scope = ANA,
    roles: tuple[str, ...] = ROLES,
    limit: int = 50,
    offset: int | None = None,
    before: int | None = None,
    after: int | None = None,
) -> Page:
    return await database.read(
        message_pages.page, scope, "main", roles=roles, limit=limit, offset=offset, before=before, after=after
    )


def seqs(of: Page) -> list[int]:
    return [message.seq for message in of.messages]


@pytest.fixture
async def ten(database: Database) -> Database:
    """A thread of ten messages, user and assistant in turn; the fourth is deleted."""
    roles: tuple[Role, Role] = ("user", "assistant")
    await say(database, "main", *(draft(f"word{n}", id=f"m{n}", role=roles[(n - 1) % 2]) for n in range(1, 11)))
    await drop(database, "main", "ids", ["m4"])
    return database


async def test_without_a_place_the_newest_come_in_chronological_order(ten: Database) -> None:
    found = await page(ten, limit=3)
    assert (seqs(found), found.total, found.thread.message_count) == ([8, 9, 10], 9, 9)


async def test_an_offset_counts_visible_messages_from_the_oldest(ten: Database) -> None:
    assert seqs(await page(ten, limit=3, offset=0)) == [1, 2, 3]
    assert seqs(await page(ten, limit=3, offset=3)) == [5, 6, 7]
    assert seqs(await page(ten, limit=3, offset=9)) == []


async def test_copies_of_another_threads_messages_are_found_also_of_deleted_and_erased_ones(database: Database) -> None:
    said = {f"m{n}": 1_000 + n for n in range(1, 5)}
    await say(database, "first", *(draft(id=id_, said_at=at) for id_, at in said.items()))
    await drop(database, "first", "ids", ["m2"])
    await drop(database, "first", "ids", ["m3"], erase=True)
    new = {**said, "m4": 9_000, "m5": 1_004}

    async def copied(thread: str, scope: Scope = ANA) -> set[str]:
        return (await database.read(message_pages.find_copied, scope, thread, new)).ids

    assert await copied("fork") == {"m1", "m2", "m3"}
    assert await copied("first") == set()
    there = await database.read(message_pages.find_copied, ANA, "fork", {"m1": 1_001, "m3": 1_003})
    assert there.places == [("first", 1)]
    assert await copied("fork", BEN) == set()


async def test_before_gives_the_newest_before_and_after_the_oldest_after(ten: Database) -> None:
    assert seqs(await page(ten, limit=2, before=6)) == [3, 5]
    assert seqs(await page(ten, limit=2, after=3)) == [5, 6]
    assert seqs(await page(ten, limit=9, before=3, after=1)) == [2]
    assert seqs(await page(ten, limit=2, before=9, after=2)) == [7, 8]


async def test_a_cursor_may_stand_on_a_deleted_or_absent_place(ten: Database) -> None:
    assert seqs(await page(ten, limit=2, before=4)) == [2, 3]
    assert seqs(await page(ten, limit=2, after=99)) == []
    assert seqs(await page(ten, limit=2, before=1)) == []


async def test_roles_narrow_the_page_and_the_total(ten: Database) -> None:
    found = await page(ten, roles=("assistant",), limit=2)
    assert (seqs(found), found.total) == ([8, 10], 4)
    found = await page(ten, roles=("system", "tool"))
    assert (seqs(found), found.total) == ([], 0)
    assert seqs(await page(ten, roles=("assistant",), limit=2, offset=1)) == [6, 8]


async def test_a_page_of_an_unknown_thread_says_how_to_find_one(database: Database) -> None:
    with pytest.raises(NotFound, match="there is no thread 'main'; list_threads"):
        await page(database)


@examples(25)
@given(
    count=st.integers(1, 30),
    gone=st.sets(st.integers(1, 30)),
    size=st.integers(1, 12),
    forwards=st.booleans(),
)
async def test_pages_cover_a_thread_exactly_once_in_both_directions(
    database: Database, count: int, gone: set[int], size: int, forwards: bool
) -> None:
    scope = new_scope()
    await say(database, "main", *(draft(id=f"m{n}") for n in range(1, count + 1)), scope=scope)
    gone = {n for n in gone if n <= count}
    await drop(database, "main", "ids", [f"m{n}" for n in gone], scope=scope)
    met: list[int] = []
    cursor: int | None = 0 if forwards else None
    while True:
        after, before = (cursor, None) if forwards else (None, cursor)
        part = seqs(await page(database, scope=scope, limit=size, after=after, before=before))
        if not part:
            break
        assert len(part) <= size
        met = met + part if forwards else part + met
        cursor = part[-1] if forwards else part[0]
    assert met == [n for n in range(1, count + 1) if n not in gone]


async def test_neighbours_are_the_visible_ones_on_each_side(ten: Database) -> None:
    thread = (await page(ten)).thread
    around = windows.neighbours
    earlier, later = await ten.read(around, ANA, thread.thread_uid, "main", 5, before=2, after=1)
    assert ([m.seq for m in earlier], [m.seq for m in later]) == ([2, 3], [6])
    earlier, later = await ten.read(around, ANA, thread.thread_uid, "main", 1, before=2, after=0)
    assert (earlier, later) == ([], [])
    earlier, later = await ten.read(around, ANA, thread.thread_uid, "main", 10, before=1, after=3)
    assert ([m.seq for m in earlier], later) == ([9], [])
    assert earlier[0].parts == [{"type": "text", "text": "word9"}]
    assert await ten.read(around, BEN, thread.thread_uid, "main", 5, before=2, after=1) == ([], [])
