"""Numbers in texts: a text that says how many were left out, shown or brought back says it exactly."""

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .calling import Json, Tools, examples

pytestmark = pytest.mark.anyio

CALL = {"id": "c1", "function": {"name": "look_up", "arguments": '{"q": "the harbour"}'}}
TEXT = st.integers(1, 60).map(lambda count: "The crane stands in the harbour. " * count)
TURNS = st.lists(st.tuples(TEXT, TEXT, st.booleans()), min_size=1, max_size=14)
WINDOWS: st.SearchStrategy[Json] = st.one_of(
    st.just({"limit": "observed", "last_messages": 3}),
    st.builds(lambda most: {"limit": "messages", "max_messages": most}, st.integers(1, 12)),
    st.builds(lambda most: {"limit": "tokens", "max_tokens": most}, st.integers(60, 3000)),
)


def make_messages(turns: list[tuple[str, str, bool]]) -> list[Json]:
    found: list[Json] = []
    for question, answer, calls in turns:
        found.append({"role": "user", "content": question})
        if calls:
            found += [
                {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": answer},
            ]
        found.append({"role": "assistant", "content": answer})
    return found


def count_shown(told: str, tag: str) -> int:
    return sum(
        len(re.findall(r"^#\d+ ", block, re.M)) for block in re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", told, re.S)
    )


def read_number(told: str, what: str) -> int:
    found = re.search(rf"([\d,]+) {what}", told)
    return int(found[1].replace(",", "")) if found else 0


@examples(25)
@given(turns=TURNS, window=WINDOWS, budget=st.integers(500, 4000), gone=st.sets(st.integers(0, 13), max_size=3))
async def test_a_context_says_how_many_messages_it_leaves_out(
    tools: Tools, turns: list[tuple[str, str, bool]], window: Json, budget: int, gone: set[int]
) -> None:
    thread = uuid.uuid4().hex
    added = (await tools.add(thread, *make_messages(turns)))["messages"]
    await tools("update_thread", thread_id=thread, window=window)
    if ids := [added[place]["id"] for place in sorted(gone) if place < len(added) - 1]:
        await tools("delete_messages", which="ids", ids=ids, thread_id=thread)
    there = (await tools.page(thread, limit=200))["total"]
    told = await tools("get_context", thread_id=thread, max_tokens=budget)
    shown = count_shown(told, "conversation") + count_shown(told, "current-turn")
    closing = told.rsplit("\n", 1)[1]
    left_out = read_number(closing, "earlier messages?") + read_number(closing, "newer messages?")
    assert shown + left_out == there, told


@examples(15)
@given(turns=TURNS, budget=st.integers(100, 2000))
async def test_a_recall_says_how_many_of_its_hits_it_shows(
    tools: Tools, turns: list[tuple[str, str, bool]], budget: int
) -> None:
    thread = uuid.uuid4().hex
    await tools.add(thread, *make_messages(turns))
    told = await tools("recall_memory", query="crane harbour", max_tokens=budget, thread_id=thread, neighbours=0)
    lines = len(re.findall(r"^(?:\* )?(?:#\d+|-) ", told, re.M))
    assert read_number(told, r"(?:of \d+ )?hits?") == lines, told


async def test_an_undone_delete_says_how_many_messages_are_there_again(tools: Tools) -> None:
    await tools.add("main", *make_messages([("one", "two", True), ("three", "four", False)]))
    _, call, result, *_ = [each["id"] for each in await tools.messages("main")]
    of_result = await tools("delete_messages", which="ids", ids=[result], thread_id="main")
    of_call = await tools("delete_messages", which="ids", ids=[call], thread_id="main")
    for deleted, restored in ((of_result, 0), (of_call, 2)):
        before = (await tools.page("main"))["total"]
        answer = await tools("undo", undo_id=deleted["undo"])
        assert (answer["messages"], (await tools.page("main"))["total"] - before) == (restored, restored)
