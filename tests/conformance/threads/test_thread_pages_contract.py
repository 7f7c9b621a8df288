"""Threads listed: every order and direction, page by page, narrowed by metadata."""

from collections.abc import Mapping
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.storage.core.json_text import to_json as json_text
from layerlore.storage.core.records import Json, Scope, Thread
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import Description, OrderBy

from ..building import ANA, NOW, draft, examples, execute, new_scope, say, uid

pytestmark = pytest.mark.anyio

ORDERS: tuple[OrderBy, ...] = get_args(OrderBy)
Place = tuple[Any, str] | None


async def make(
    database: Database, name: str, title: str | None, metadata: Json | None, now: int, scope: Scope
) -> Thread:
    description = Description(title, metadata)
    return await database.write(
        threads.describe, scope, name, description, new_uid=uid(), now=now, check=lambda _: None
    )


async def listed(
    database: Database,
    *,
    scope: Scope = ANA,
    metadata: Mapping[str, Any] | None = None,
    order_by: OrderBy = "created_at",
    descending: bool = False,
    after: Place = None,
    limit: int = 50,
) -> tuple[list[Thread], Place]:
    wanted = threads.ThreadFilter(metadata=metadata, order_by=order_by, descending=descending)
    found, behind = await database.read(threads.read_page, scope, wanted, after=after, limit=limit)
    return [each.thread for each in found], behind


def names(found: tuple[list[Thread], Place]) -> list[str]:
    return [thread.thread_id for thread in found[0]]


async def test_no_threads_is_an_empty_list(database: Database) -> None:
    assert await listed(database) == ([], None)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("order_by", "expected"),
    [
        ("created_at", ["c", "a", "d", "b"]),
        ("updated_at", ["c", "d", "b", "a"]),
        # No title comes first, then by code point, so that both databases agree: "Z" < "a" < "é".
        ("title", ["d", "c", "a", "b"]),
    ],
)
async def test_threads_are_listed_in_every_order_and_direction(
    database: Database, order_by: OrderBy, expected: list[str], descending: bool
) -> None:
    for n, (name, title) in enumerate([("c", "Zebra"), ("a", "apple"), ("d", None), ("b", "étude")]):
        await make(database, name, title, None, NOW + n, ANA)
    await say(database, "a", draft(), now=NOW + 10)
    found = await listed(database, order_by=order_by, descending=descending)
    assert names(found) == (expected[::-1] if descending else expected)
    assert found[1] is None


async def test_titles_sort_by_code_point_beyond_the_basic_plane(database: Database) -> None:
    titles = ["\U0001f600", "\uff5e", "z", "Ä", "A"]
    for n, title in enumerate(titles):
        await make(database, f"t{n}", title, None, NOW, ANA)
    found, _ = await listed(database, order_by="title")
    assert [thread.title for thread in found] == sorted(titles)


async def test_a_full_last_page_has_no_next(database: Database) -> None:
    for n in range(4):
        await make(database, f"t{n}", None, None, NOW + n, ANA)
    first = await listed(database, limit=2)
    assert names(first) == ["t0", "t1"]
    assert first[1] is not None
    second = await listed(database, limit=2, after=first[1])
    assert (names(second), second[1]) == (["t2", "t3"], None)


@examples(30)
@given(
    # Few values, so that many threads share one and the cursor has to tell them apart.
    rows=st.lists(st.tuples(st.sampled_from([None, "a", "b", "B"]), st.integers(0, 2)), max_size=14),
    late=st.lists(st.tuples(st.sampled_from([None, "a", "c"]), st.integers(0, 3)), max_size=6),
    order_by=st.sampled_from(ORDERS),
    descending=st.booleans(),
    size=st.integers(1, 5),
)
async def test_pages_give_every_thread_exactly_once_while_others_are_added(
    database: Database,
    rows: list[tuple[str | None, int]],
    late: list[tuple[str | None, int]],
    order_by: OrderBy,
    descending: bool,
    size: int,
) -> None:
    scope = new_scope()
    for n, (title, at) in enumerate(rows):
        await make(database, f"t{n}", title, None, NOW + at, scope)
    met: list[Thread] = []
    after: Place = None
    coming = iter(enumerate(late))
    while True:
        part, after = await listed(
            database, scope=scope, order_by=order_by, descending=descending, after=after, limit=size
        )
        assert len(part) == size if after is not None else len(part) <= size
        met += part
        if after is None:
            break
        for n, (title, at) in [*coming][:1]:
            await make(database, f"late{n}", title, None, NOW + at, scope)
    found = [thread.thread_id for thread in met]
    assert len(found) == len(set(found))
    assert {f"t{n}" for n in range(len(rows))} <= set(found)
    keys = [((thread.title or "") if order_by == "title" else getattr(thread, order_by)) for thread in met]
    assert keys == sorted(keys, reverse=descending)


METADATA: list[Json] = [
    {},
    {"topic": None},
    {"topic": "trip"},
    {"topic": "trip", "stage": 1},
    {"topic": ["trip"]},
    {"odd": [1, {"a": 0}]},
]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"topic": "trip"}, [2, 3]),
        ({"topic": "trip", "stage": 1}, [3]),
        ({"stage": 2}, []),
        # null asks for a key that is there and null; a key that is absent is not null.
        ({"topic": None}, [1]),
        ({"absent": None}, []),
        ({"topic": ["trip"]}, [4]),
        # true is not 1, and 1 is 1.0, as in JSON.
        ({"stage": True}, []),
        ({"stage": 1.0}, [3]),
        ({"odd": [1, {"a": 0}]}, [5]),
        ({"odd": [True, {"a": False}]}, []),
        ({"odd": [1, {"a": 0}, 2]}, []),
    ],
)
async def test_a_metadata_filter_wants_every_key_with_an_equal_value(
    database: Database, wanted: Json, expected: list[int]
) -> None:
    # A merge patch stores no null at the top, so the rows are written as they shall lie.
    sql = "UPDATE threads SET metadata = :metadata WHERE thread_id = :name"
    for n, metadata in enumerate(METADATA):
        await make(database, f"t{n}", None, None, NOW, ANA)
        await database.write_installation(execute, sql, metadata=json_text(metadata), name=f"t{n}")
    found = await listed(database, metadata=wanted)
    assert sorted(names(found)) == [f"t{n}" for n in expected]


@examples(20)
@given(matching=st.lists(st.booleans(), max_size=12), size=st.integers(1, 4), descending=st.booleans())
async def test_pages_of_a_filtered_list_give_every_match_exactly_once(
    database: Database, matching: list[bool], size: int, descending: bool
) -> None:
    scope = new_scope()
    for n, matches in enumerate(matching):
        await make(database, f"t{n}", None, {"kind": "a" if matches else "b"}, NOW + n // 3, scope)
    met: list[str] = []
    after: Place = None
    while True:
        found = await listed(
            database, scope=scope, metadata={"kind": "a"}, after=after, limit=size, descending=descending
        )
        met += names(found)
        after = found[1]
        if after is None:
            break
    assert sorted(met) == sorted(f"t{n}" for n, matches in enumerate(matching) if matches)


async def test_a_filter_looks_beyond_the_first_rows_read(database: Database) -> None:
    """The filter is applied in Python, to blocks of rows."""

    async def fill(tx: Tx, scope: Scope) -> None:
        for n in range(450):
            title = Description(None, {"last": True} if n in (3, 449) else {})
            await threads.describe(tx, ANA, f"t{n}", title, new_uid=uid(), now=NOW + n, check=lambda _: None)

    await database.write(fill, ANA)
    assert names(await listed(database, metadata={"last": True}, limit=1)) == ["t3"]
    first = await listed(database, metadata={"last": True}, limit=1)
    second = await listed(database, metadata={"last": True}, limit=1, after=first[1])
    assert (names(second), second[1]) == (["t449"], None)
