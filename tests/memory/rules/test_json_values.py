"""Merging JSON, and the equality that it goes by."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.rules.json_schema import make_equality_key, merge_json

NUMBERS = st.sampled_from([0, 1, -1, 1.0, 0.5, 10**20, 1e20, -0.0])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "1", "true", "ä"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


def equal(left: Any, right: Any) -> bool:
    """Equality of JSON values, said another way than by keys."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


@pytest.mark.parametrize(
    ("target", "more", "merged"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3, "d": 4}}, {"a": {"b": 1, "c": 3, "d": 4}}),
        ({"a": [1, 2]}, {"a": [2, 3]}, {"a": [1, 2, 3]}),
        ({"a": [1]}, {"a": [True, 1.0, "1"]}, {"a": [1, True, "1"]}),
        ({"a": [{"x": 1, "y": 2}]}, {"a": [{"y": 2, "x": 1}, {"x": 1}]}, {"a": [{"x": 1, "y": 2}, {"x": 1}]}),
        ({"a": [[1]]}, {"a": [[True], [1]]}, {"a": [[1], [True]]}),
        ({"a": [0, 0]}, {"a": [1, 0, 1]}, {"a": [0, 0, 1]}),
        ({"a": [1]}, {"a": 1}, {"a": 1}),
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({}, {"a": [1, 1]}, {"a": [1, 1]}),
    ],
)
def test_objects_merge_lists_unite_and_all_else_is_overwritten(target: Any, more: Any, merged: Any) -> None:
    before = copy.deepcopy((target, more))
    result = merge_json(target, more)
    assert result == merged
    assert repr(result) == repr(merged), "true is not 1, and keys keep their order"
    assert (target, more) == before


@given(OBJECTS, OBJECTS)
def test_merging_the_same_again_changes_nothing(target: Any, more: Any) -> None:
    once = merge_json(target, more)
    assert repr(merge_json(once, more)) == repr(once)


@given(OBJECTS, OBJECTS)
def test_every_key_of_both_sides_is_in_the_result(target: Any, more: Any) -> None:
    merged = merge_json(target, more)
    assert merged.keys() == target.keys() | more.keys()
    for key in target.keys() - more.keys():
        assert merged[key] is target[key]


@given(JSON, JSON)
def test_a_key_is_shared_by_equal_values_and_by_no_others(left: Any, right: Any) -> None:
    assert (make_equality_key(left) == make_equality_key(right)) is equal(left, right)


@given(st.lists(JSON, max_size=8), st.lists(JSON, max_size=8))
def test_a_list_gets_what_it_has_not_yet_each_once_in_the_order_of_its_first_coming(left: Any, right: Any) -> None:
    united: list[Any] = [*left]
    for entry in right:
        if not any(equal(entry, there) for there in united):
            united.append(entry)
    assert repr(merge_json(left, right)) == repr(united)
