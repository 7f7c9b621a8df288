"""Listing runs: newest first, page by page, by every filter, and never their state."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.rules.validation import Limits
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.transaction import Database

from ..building import MINUTE, NOW, examples, new_scope
from ..running import Clock, Runs

pytestmark = pytest.mark.anyio


@pytest.fixture
async def filled(database: Database) -> Runs:
    """Eight runs, a minute apart: r0 ... r7."""
    found = Runs(database)
    for number in range(8):
        await found.suspend(
            f"r{number}",
            "quokka",
            named=("main", "other")[number % 2],
            workflow_id="trip" if number < 4 else "",
            metadata={
                "n": number,
                "half": number // 2,
                "odd": bool(number % 2),
                **({"none": None} if number == 5 else {}),
            },
        )
        found.clock.now += MINUTE
    await found.resume("r0", by="client 1", seconds=60)
    for number, status in ((1, "completed"), (2, "failed"), (3, "cancelled")):
        await found.complete(f"r{number}", (await found.resume(f"r{number}"))["claim"], status)
    return found


async def test_runs_are_listed_newest_first_by_every_filter(filled: Runs) -> None:
    expected: list[tuple[dict[str, Any], str]] = [
        ({}, "76543210"),
        ({"statuses": ["suspended"]}, "7654"),
        ({"statuses": ["running", "failed"]}, "20"),
        ({"workflow_id": "trip"}, "3210"),
        ({"workflow_id": "tri"}, ""),
        ({"thread_id": "other"}, "7531"),
        ({"since": NOW + 2 * MINUTE, "until": NOW + 4 * MINUTE}, "432"),
        ({"metadata": {"half": 1}}, "32"),
        ({"metadata": {"half": 1.0, "odd": True}}, "3"),
        ({"metadata": {"odd": 1}}, ""),
        ({"metadata": {"none": None}}, "5"),
        ({"metadata": {"m": None}}, ""),
        ({"statuses": ["suspended"], "thread_id": "main", "since": NOW + 5 * MINUTE, "metadata": {"n": 6}}, "6"),
    ]
    for request, ids in expected:
        assert "".join(await filled.ids(**request)).replace("r", "") == ids, request


async def test_a_row_tells_all_but_the_state(filled: Runs) -> None:
    rows = {row["run_id"]: row for row in (await filled.page())["runs"]}
    assert "quokka" not in repr(rows)
    assert (rows["r0"]["claimed_by"], rows["r0"]["status"]) == ("client 1", "running")
    assert not [row for name, row in rows.items() if name != "r0" and "claimed_by" in row]
    await filled.suspend(
        "r8",
        "quokka",
        pending_tool_calls=[{"tool_call_id": "a", "tool_name": "sail"}, {"tool_call_id": "b", "suspended": False}],
        reason="ask",
        ttl_seconds=60,
    )
    newest = (await filled.page(limit=1))["runs"][0]
    assert newest.keys() == {
        *("run_id", "thread_id", "status", "reason", "waiting", "expires_at", "created_at", "updated_at")
    }
    assert newest["waiting"] == [{"tool_call_id": "a", "tool_name": "sail"}]
    one = await filled.one("r8")
    assert one == {**newest, "pending_tool_calls": one["pending_tool_calls"]}
    assert "quokka" not in repr(one)


async def test_an_unknown_thread_has_no_runs_an_unknown_run_is_not_found_and_a_period_that_ends_before_it_begins_is_refused(
    filled: Runs,
) -> None:
    assert (await filled.page(thread_id="nowhere"))["runs"] == []
    with pytest.raises(NotFound, match="no run 'nothing'"):
        await filled.one("nothing")
    with pytest.raises(InvalidInput, match="since: it is later than until"):
        await filled.page(since=2, until=1)


async def test_a_cursor_serves_the_listing_it_was_made_for_and_no_other(filled: Runs) -> None:
    page = await filled.page(limit=2, metadata={"odd": False}, statuses=["suspended", "running"])
    assert [row["run_id"] for row in page["runs"]] == ["r6", "r4"]
    rest = await filled.page(
        limit=2, cursor=page["next_cursor"], metadata={"odd": False}, statuses=["running", "suspended"]
    )
    assert [row["run_id"] for row in rest["runs"]] == ["r0"]
    assert "next_cursor" not in rest
    for request in ({}, {"metadata": {"odd": True}}, {"metadata": {"odd": False}}):
        with pytest.raises(InvalidInput, match="other arguments"):
            await filled.page(cursor=page["next_cursor"], **request)
    for cursor in ("x", "e30=", "W10=", "WyJhIiwgMSwgMl0=", "ü", "WyJhIiwgMWUzLCAiYiJd"):
        with pytest.raises(InvalidInput, match="not one that list_runs gave"):
            await filled.page(cursor=cursor)


@examples(25)
@given(times=st.lists(st.integers(0, 3), max_size=12), limit=st.integers(1, 5), even=st.booleans())
async def test_pages_together_are_the_list_whatever_comes_meanwhile(
    database: Database, times: list[int], limit: int, even: bool
) -> None:
    """Many are made in the same millisecond; newer ones do not move those that are still to come."""
    found = Runs(database, Clock(), new_scope())
    for number, time in enumerate(times):
        found.clock.now = NOW + time
        await found.suspend(f"r{number}", 0, metadata={"even": number % 2 == 0})
    request = {"metadata": {"even": True}} if even else {}
    whole = await found.ids(**request)
    assert sorted(whole) == sorted(f"r{number}" for number in range(len(times)) if not even or number % 2 == 0)
    made = [times[int(name[1:])] for name in whole]
    assert made == sorted(made, reverse=True)
    pages, cursor = [], ""
    while True:
        page = await found.page(limit=limit, cursor=cursor, **request)
        pages.append([row["run_id"] for row in page["runs"]])
        found.clock.now = NOW + 10
        await found.suspend(f"later{len(pages)}", 0, metadata={"even": True})
        cursor = page.get("next_cursor", "")
        if not cursor:
            break
    assert [name for page in pages for name in page] == whole
    assert all(len(page) == limit for page in pages[:-1])


async def test_a_page_ends_where_it_would_be_too_large_and_the_next_goes_on(database: Database) -> None:
    found = Runs(database)
    for number in range(40):
        await found.suspend(f"r{number:02}", 0, reason="x" * 16_000)
        found.clock.now += 1
    first = await found.page(limit=100)
    assert len(first["runs"]) == Limits().answer_bytes // (2 * 16_300)
    rest = await found.page(limit=100, cursor=first["next_cursor"])
    names = [row["run_id"] for row in (*first["runs"], *rest["runs"])]
    assert names == [f"r{number:02}" for number in reversed(range(40))]
    assert "next_cursor" not in rest


async def test_a_filter_that_few_pass_looks_through_all_runs(database: Database) -> None:
    found = Runs(database)
    for number in range(230):
        await found.suspend(f"r{number}", 0, metadata={"rare": number in (0, 210)})
    assert sorted(await found.ids(metadata={"rare": True})) == ["r0", "r210"]
    page = await found.page(limit=1, metadata={"rare": True})
    assert len((await found.page(limit=1, cursor=page["next_cursor"], metadata={"rare": True}))["runs"]) == 1
