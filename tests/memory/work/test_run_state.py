"""The checks on runs that need no database: pending tool calls, resume data, and what JSON may enter as it is."""

from typing import Any

import pytest

from layerlore.memory.rules.validation import Limits, write_exact_json
from layerlore.memory.work.pending_calls import (
    ENDINGS,
    MOST_CALLS,
    STATUSES,
    PendingCall,
    check_calls,
    check_data,
    find_call,
    read_calls,
)
from layerlore.storage.core.errors import InvalidInput, LimitExceeded

pytestmark = pytest.mark.anyio

LIMITS = Limits()
SCHEMA = {"type": "object", "required": ["approved"], "properties": {"approved": {"type": "boolean"}}}


def test_there_are_five_states_of_which_three_are_ends() -> None:
    assert STATUSES == ("running", "suspended", "completed", "failed", "cancelled")
    assert STATUSES[2:] == ENDINGS


def test_calls_are_read_from_a_list_and_from_an_object_in_either_spelling() -> None:
    listed = [
        {"tool_call_id": "a", "tool_name": "sail", "suspended": True, "resume_schema": SCHEMA},
        {"toolCallId": "b", "toolName": "row", "suspended": False, "input": {"x": 1}},
        {"tool_call_id": "c", "suspended": None, "resume_schema": None},
    ]
    by_id = {"a": {**listed[0]}, "b": {"toolName": "row", "suspended": False}, "c": {"toolCallId": "c"}}
    expected = [
        PendingCall("a", "sail", True, SCHEMA),
        PendingCall("b", "row", False, None),
        PendingCall("c", "", True, None),
    ]
    for value in (listed, by_id):
        check_calls(value, LIMITS)
        assert read_calls(value) == expected


WRONG: list[tuple[Any, str]] = [
    ("c1", "pending_tool_calls: must be a list of tool calls, or an object of them by id, not 'c1'"),
    (["c1"], "pending_tool_calls[0]: must be an object with id, name"),
    ({"c1": None}, "pending_tool_calls['c1']: must be an object"),
    ([{}], "pending_tool_calls[0].id: must be a string, not null"),
    ([{"tool_call_id": ""}], "pending_tool_calls[0].id: must not be empty"),
    ([{"toolCallId": 1}], "pending_tool_calls[0].id: must be a string, not a number"),
    ({"c1": {"toolCallId": "c2"}}, "is 'c2', but its key is 'c1'"),
    ([{"tool_call_id": "c"}, {"toolCallId": "c"}], "pending_tool_calls[1].id: 'c' comes twice"),
    ([{"tool_call_id": "c", "tool_name": 7}], "pending_tool_calls[0].name: must be a string"),
    ([{"tool_call_id": "c", "suspended": "yes"}], "suspended: must be true or false"),
    ([{"tool_call_id": "c", "resume_schema": {"type": "boat"}}], "pending_tool_calls[0].resume_schema"),
    ([{"tool_call_id": "c", "resumeSchema": "{}"}], "resume_schema: must be a JSON Schema"),
    ([{"tool_call_id": f"c{n}"} for n in range(MOST_CALLS + 1)], f"{MOST_CALLS} are allowed"),
]


@pytest.mark.parametrize(("value", "told"), WRONG, ids=[told for _, told in WRONG])
def test_calls_that_could_not_be_read_are_refused_with_their_place(value: Any, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_calls(value, LIMITS)
    assert told in str(caught.value)


def waiting(*ids: str) -> list[PendingCall]:
    return [PendingCall(id_, "", True, None) for id_ in ids]


def test_data_is_for_the_call_that_is_named_or_the_only_one_that_waits() -> None:
    asleep = PendingCall("z", "", False, None)
    assert find_call([asleep], "") is None
    assert find_call([asleep, *waiting("a")], "") == waiting("a")[0]
    assert find_call([*waiting("a", "b")], "b") == waiting("b")[0]
    for calls, named, told in (
        (waiting("a", "b"), "", "needed, since several tool calls wait for data: 'a', 'b'"),
        ([asleep, *waiting("a")], "z", "'z' does not wait for data; those that do: 'a'"),
        ([], "a", "those that do: none"),
    ):
        with pytest.raises(InvalidInput) as caught:
            find_call(calls, named)
        assert told in str(caught.value)


def test_text_that_holds_an_object_or_list_is_taken_for_that_unless_the_schema_wants_the_text() -> None:
    def call(schema: Any) -> PendingCall:
        return PendingCall("a", "", True, schema)

    assert check_data('{"approved": true}', call(SCHEMA)) == {"approved": True}
    assert check_data('{"approved": true}', call(None)) == {"approved": True}
    assert check_data("[1]", None) == [1]
    assert check_data("[1]", call({"type": "string"})) == "[1]"
    for text in ("yes", "7", "null", '"x"', "[1", '{"a": 1, "a": 2}', "[" * 100_000):
        assert check_data(text, None) == text
    for data in ('{"approved": 1}', {"approved": 1}):
        with pytest.raises(InvalidInput, match=r"data\.approved"):
            check_data(data, call(SCHEMA))


async def test_any_json_enters_exactly_but_what_could_not_be_sent_back() -> None:
    assert await write_exact_json({"b": 1.0, "a": ["\x00é", 10**30]}, "state", 100, LIMITS) == (
        '{"b":1.0,"a":["\\u0000é",1000000000000000000000000000000]}'
    )
    for value, told in (
        ({"k": ["x\ud83d"]}, "character 8 of its JSON is half of a surrogate pair, U+D83D"),
        (float("nan"), "has a number that is NaN"),
        ([float("inf")], "has a number that is NaN, infinite"),
        (10**5000, "more than 4,300 digits"),
    ):
        with pytest.raises(InvalidInput) as caught:
            await write_exact_json(value, "state", 10_000, LIMITS)
        assert str(caught.value).startswith("state: ")
        assert told in str(caught.value)


async def test_size_and_depth_of_exact_json_are_limited() -> None:
    assert await write_exact_json("é" * 49, "state", 100, LIMITS)
    with pytest.raises(LimitExceeded, match=r"state: 102 bytes of JSON; at most 100 are allowed"):
        await write_exact_json("é" * 50, "state", 100, LIMITS)
    value: Any = "leaf"
    for level in range(63):
        value = [value] if level % 2 else {"k": value}
    for padding in ("", "x" * 10_000):  # the longer one is looked at in a thread
        assert await write_exact_json([value, padding], "state", 10**6, LIMITS)
        with pytest.raises(LimitExceeded, match="nested more than 64 levels deep"):
            await write_exact_json([[value], padding], "state", 10**6, LIMITS)
    for _ in range(100_000):
        value = [value]
    with pytest.raises(LimitExceeded, match="nested more than 64 levels deep"):
        await write_exact_json(value, "state", 10**6, LIMITS)
