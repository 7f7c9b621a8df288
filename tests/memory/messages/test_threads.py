"""list_threads, update_thread, delete_thread."""

import base64
import json
from typing import Any

import pytest

from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio


async def names(tools: Tools, **arguments: Any) -> list[str]:
    return [row["thread_id"] for row in (await tools("list_threads", **arguments))["threads"]]


async def described(tools: Tools) -> None:
    """Three threads: c was made last, a was changed last."""
    await tools("update_thread", thread_id="a", title="Zebra", metadata={"project": "tea", "tags": ["x"], "n": 1})
    await tools("update_thread", thread_id="b", title="apple", metadata={"project": "tea", "n": 2})
    await tools("update_thread", thread_id="c", metadata={"project": "coffee"})
    await tools.say("a", "hello")


async def test_a_thread_shows_its_title_metadata_and_counts(tools: Tools) -> None:
    await described(tools)
    (row,) = (await tools("list_threads", thread_id="a"))["threads"]
    (message,) = await tools.messages("a")
    assert (row["title"], row["metadata"]) == ("Zebra", {"project": "tea", "tags": ["x"], "n": 1})
    assert (row["messages"], row["tokens"]) == (1, message["tokens"])
    assert row["created_at"] <= row["updated_at"]
    (bare,) = (await tools("list_threads", thread_id="c"))["threads"]
    assert "title" not in bare


@pytest.mark.databases
async def test_threads_come_by_update_creation_or_title_in_both_directions(tools: Tools) -> None:
    await described(tools)
    assert await names(tools, order_by="title", descending=False) == ["c", "a", "b"]
    for order in ("created_at", "updated_at", "title"):
        newest_first = (await tools("list_threads", order_by=order))["threads"]
        values = [row.get(order, "") for row in newest_first]
        assert values == sorted(values, reverse=True)
        assert await names(tools, order_by=order, descending=False) == [row["thread_id"] for row in newest_first][::-1]
    rows = {row["thread_id"]: row for row in (await tools("list_threads"))["threads"]}
    assert rows["a"]["created_at"] <= rows["b"]["created_at"] <= rows["c"]["updated_at"] <= rows["a"]["updated_at"]


@pytest.mark.databases
async def test_metadata_narrows_to_threads_with_every_equal_value(tools: Tools) -> None:
    await described(tools)
    assert sorted(await names(tools, metadata={"project": "tea"})) == ["a", "b"]
    assert await names(tools, metadata={"project": "tea", "n": 2}) == ["b"]
    assert await names(tools, metadata={"tags": ["x"]}) == ["a"]
    assert await names(tools, metadata={"tags": "x"}) == []
    assert await names(tools, metadata={"missing": 1}) == []


@pytest.mark.databases
@pytest.mark.parametrize("metadata", [{}, {"kept": 1}], ids=["all", "filtered"])
async def test_the_cursor_walks_every_thread_exactly_once(tools: Tools, metadata: Json) -> None:
    for number in range(11):
        await tools("update_thread", thread_id=f"t{number}", title=f"same {number % 3}", metadata={"kept": 1})
    for order in ("created_at", "updated_at", "title"):
        for descending in (True, False):
            asked = {"order_by": order, "descending": descending, "metadata": metadata, "limit": 4}
            seen: list[str] = []
            cursor: str | None = ""
            while cursor is not None:
                page = await tools("list_threads", cursor=cursor, **asked)
                seen += [row["thread_id"] for row in page["threads"]]
                assert len(page["threads"]) <= 4
                assert len(seen) <= 11
                cursor = page.get("next_cursor")
            assert sorted(seen) == sorted(f"t{number}" for number in range(11))


def made(*place: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(place[0] if len(place) == 1 else place).encode()).decode()


ORDER = ["updated_at", True, {}]
NEVER_GIVEN = (
    *("nonsense", "é", "====", "\x00", made(5), made({"a": 1, "b": 2, "c": 3}), made("abc"), made(ORDER, 1)),
    *(made(ORDER, 2**70, "x"), made(ORDER, True, "x"), made(ORDER, "1", "x"), made(ORDER, 1, None)),
    *(made(ORDER, 1, "x\x00"), base64.urlsafe_b64encode(b"[" * 100_000).decode()),
)


async def test_a_cursor_that_was_never_given_is_refused(tools: Tools) -> None:
    for cursor in NEVER_GIVEN:
        assert (await tools.refused("list_threads", cursor=cursor)).startswith("cursor: "), cursor


async def test_a_cursor_of_another_listing_is_refused(tools: Tools) -> None:
    await described(tools)
    cursor = (await tools("list_threads", limit=1))["next_cursor"]
    for other in ({"order_by": "title"}, {"descending": False}, {"metadata": {"n": 1}}):
        assert "repeat them" in await tools.refused("list_threads", cursor=cursor, **other)


async def test_a_listing_has_one_to_a_hundred_threads(tools: Tools) -> None:
    await described(tools)
    assert len(await names(tools, limit=1)) == 1
    assert len(await names(tools, limit=100)) == 3
    for limit in (-1, 101):
        assert "limit" in await tools.refused("list_threads", limit=limit)


async def test_an_update_changes_only_what_is_given(tools: Tools) -> None:
    await tools("update_thread", thread_id="a", title="  Tea  ", metadata={"deep": {"x": 1, "y": 2}, "list": [1, 2]})
    merged = await tools("update_thread", thread_id="a", metadata={"deep": {"x": None, "z": 3}, "list": [9]})
    assert (merged["title"], merged["metadata"]) == ("Tea", {"deep": {"y": 2, "z": 3}, "list": [9]})
    renamed = await tools("update_thread", thread_id="a", title="Coffee")
    assert (renamed["title"], renamed["metadata"]) == ("Coffee", merged["metadata"])
    untitled = await tools("update_thread", thread_id="a", title="")
    assert "title" not in untitled
    assert untitled["metadata"] == merged["metadata"]
    emptied = await tools("update_thread", thread_id="a", metadata={"deep": None, "list": None})
    assert "metadata" not in emptied


async def test_an_update_makes_a_thread_that_is_absent(tools: Tools) -> None:
    made_now = await tools("update_thread", thread_id="new", title="New")
    assert (made_now["thread_id"], made_now["messages"], made_now["tokens"]) == ("new", 0, 0)
    assert (await tools.page("new"))["messages"] == []


async def test_an_update_without_anything_to_update_is_an_error(tools: Tools) -> None:
    error = await tools.refused("update_thread", thread_id="a")
    assert "give a title, metadata, a window or a subject" in error
    assert await names(tools) == []


@pytest.mark.databases
async def test_a_deleted_thread_is_gone_everywhere_and_its_name_is_free(tools: Tools) -> None:
    await tools.say("a", "my cat is called Miso", "she sleeps")
    await tools("update_thread", thread_id="a", title="Cats", metadata={"k": 1})
    answer = await tools("delete_thread", thread_id="a")
    assert (answer["thread_id"], answer["deleted_messages"]) == ("a", 2)
    assert answer["undo"]
    assert answer["restorable_until"]
    assert await names(tools) == []
    assert await tools.found("cat") == []
    assert (await tools("memory_status"))["counts"] == {
        "threads": 0,
        "messages": 0,
        "tokens": 0,
        "restorable_deletes": 1,
    }
    assert await tools.page("a") == {"thread_id": "a", "messages": [], "total": 0}
    assert await names(tools, thread_id="a") == []
    for tool, arguments in (("delete_messages", {"which": "all"}), ("delete_thread", {})):
        assert "no thread 'a'" in await tools.refused(tool, thread_id="a", **arguments)
    assert (await tools.say("a", "anew"))["messages"][0]["seq"] == 1
    (row,) = (await tools("list_threads"))["threads"]
    assert row.keys() == {"thread_id", "messages", "tokens", "created_at", "updated_at"}
    assert await tools.found("cat") == []


async def test_a_thread_is_deleted_only_by_name(connect: Connect) -> None:
    async with connect(thread="launch") as tools:
        await tools.say("launch", "hello")
        assert "thread_id" in await tools.refused("delete_thread")
        assert "thread_id" in await tools.refused("delete_thread", thread_id="")
        assert await names(tools) == ["launch"]
