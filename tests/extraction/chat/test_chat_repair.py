"""The JSON object in what a model wrote."""

import json
from typing import Any

import pytest
from growth import grows_in_step
from hypothesis import given
from hypothesis import strategies as st

from layerlore.extraction.chat.chat_port import Unreadable, read_object

VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc {}[]\"'\\`,:é", max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS: Any = st.dictionaries(st.sampled_from(["entries", "text", "a b"]), VALUES, min_size=1, max_size=3)
# Prose in which nothing looks like JSON.
PROSE = st.text("abc \n.,:;'()<>", max_size=30)


def unreadable(text: str) -> str:
    with pytest.raises(Unreadable) as caught:
        read_object(text)
    return str(caught.value)


@given(OBJECTS, PROSE, PROSE, st.booleans(), st.sampled_from([None, 2]))
def test_an_object_is_read_whatever_is_written_around_it(
    value: Any, before: str, after: str, fenced: bool, indent: int | None
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    text = f"```json\n{text}\n```" if fenced else text
    assert read_object(f"{before}{text}{after}") == value


@given(OBJECTS, st.integers(1, 400))
def test_an_object_that_was_cut_off_is_read_as_it_was_or_not_at_all(value: Any, missing: int) -> None:
    """Of its last brackets it may lack some; of what they hold nothing."""
    text = json.dumps(value)
    cut = text[:-missing]
    if set(text[len(cut) :]) <= set("]}") and cut.endswith(("]", "}")):
        assert read_object(cut) == value
        return
    try:
        found = read_object(cut)
    except Unreadable:
        return
    # Where the cut fell between two members nobody can see it: then all that is there is as it was.
    assert cut.endswith(("}", "]", '"', "null", "true", "false"))
    for key, inner in found.items():
        assert inner == value[key] or json.dumps(value[key]).startswith(json.dumps(inner)[:-1].rstrip("]}"))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2]}',
        '\ufeff{"a": [1, 2]}',
        '{"a": [1, 2,],}',
        '[{"a": [1, 2]}]',
        'Here you are: {"a": [1, 2]}.',
        '{"b": 1} is not it, this is: {"a": [1, 2]}',
        '```\n{"a": [1, 2]}\n```',
        '```json\n{"a": [1, 2]',
        '<think>{"a": [3], "and": "more of it"}</think>\n{"a": [1, 2]}',
        "{'a': [3, 4, 5, 6]} or rather {\"a\": [1, 2]}",
        '{"a": [1, 2]',
    ],
)
def test_what_is_wrapped_in_all_sorts_of_ways_is_found(text: str) -> None:
    assert read_object(text) == {"a": [1, 2]}


@pytest.mark.parametrize("last", ["null", "true", "false", '"b"', "{}", "[1]"])
def test_a_last_bracket_alone_may_be_missing_after_whatever_cannot_go_on(last: str) -> None:
    assert read_object(f'{{"a": 1, "b": {last}') == {"a": 1, "b": json.loads(last)}


def test_line_breaks_within_strings_and_commas_within_them_stay() -> None:
    assert read_object('{"a": "one\ntwo ,] ,}"}') == {"a": "one\ntwo ,] ,}"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is not a JSON object"),
        ("none", "it is not a JSON object"),
        ("[1, 2]", "it is not a JSON object"),
        ('{"a": "b', "its JSON ends before it is complete"),
        ('{"a": [1, 2', "its JSON ends before it is complete"),
        ('{"a": [{"b": 1},', "its JSON ends before it is complete"),
        ('{"a": [{"b": "c"', "its JSON ends before it is complete"),
        ('{"a": [{"b"', "its JSON ends before it is complete"),
        ("{'a': 1}", "its JSON is invalid"),
        ('{"a": [1}]', "its JSON is invalid"),
        ('{"a": NaN}', "it holds NUL"),
        ('{"a": 1e999}', "it holds NUL"),
        ('{"a": "\\ud800"}', "it holds NUL"),
        ('{"a": "\\u0000"}', "it holds NUL"),
        ('{"a": ' * 70 + "1" + "}" * 70, "it holds NUL"),
        ('{"a": ' + "9" * 5000 + "}", "its JSON is invalid"),
    ],
)
def test_what_cannot_be_used_is_told_without_repeating_it(text: str, why: str) -> None:
    assert unreadable(text).startswith(why)


@pytest.mark.programs
@pytest.mark.parametrize("unit", ["{", "[", '{"a":', '"', '\\"', '{"', "```\n", "{}", "{'", "<think>", '",', "]}"])
def test_the_work_on_any_text_grows_in_step_with_its_length(unit: str) -> None:
    assert grows_in_step(lambda length: unreadable("{" + unit * (length // len(unit))), 50_000)
