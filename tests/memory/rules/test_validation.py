"""What may enter, and what a refusal says."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layerlore.memory.rules.validation import (
    Limits,
    check_id,
    check_json,
    check_metadata,
    check_text,
    count_json_bytes,
    describe,
    find_nearest,
    load_json,
    parse_time,
)
from layerlore.storage.core.errors import InvalidInput, LimitExceeded

LIMITS = Limits()


def nested(depth: int) -> object:
    value: object = "leaf"
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_all_unicode_text_but_nul_and_surrogates_passes_unchanged(text):
    assert check_text(text, "here") == text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ab\x00c", "character 2 is NUL"),
        ("é\x00\ud800", "character 1 is NUL"),
        ("é\ud800\x00", "character 1 is half of a surrogate pair, U+D800"),
        ("\udfff", "character 0 is half of a surrogate pair, U+DFFF"),
    ],
)
def test_nul_and_lone_surrogates_are_refused_with_place_and_rule(text, what):
    with pytest.raises(InvalidInput) as caught:
        check_text(text, "messages[0].content")
    assert str(caught.value) == (
        f"messages[0].content: {what}; any Unicode text is allowed except NUL and lone surrogates"
    )


def test_what_is_no_text_is_refused():
    with pytest.raises(InvalidInput, match=r"^here: must be a string, not a list$"):
        check_text([], "here")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), inner)
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(json_values)
def test_plain_json_is_accepted_and_measured_as_it_will_be_written(value):
    check_json(value, "here", depth=64)
    assert count_json_bytes(value) == len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    assert load_json(json.dumps(value), "here") == value


@pytest.mark.parametrize("depth", [1, 5, 64])
def test_json_may_be_as_deep_as_the_limit_and_no_deeper(depth):
    check_json(nested(depth), "here", depth=depth)
    with pytest.raises(
        LimitExceeded, match=rf"^here: nested more than {depth} levels deep; at most {depth} are allowed$"
    ):
        check_json(nested(depth + 1), "here", depth=depth)


def test_a_hundred_thousand_levels_are_refused_without_a_stack_overflow():
    deep = nested(100_000)
    with pytest.raises(LimitExceeded):
        check_json(deep, "here", depth=64)
    with pytest.raises(LimitExceeded, match="nested too deeply"):
        load_json("[" * 100_000, "here")
    while isinstance(deep, list | dict):  # taken apart by hand: freeing it in one go recurses
        deep = deep[0] if isinstance(deep, list) else deep["k"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, "x\x00"]}, "here.a[1]: character 1 is NUL"),
        ({"a": {"b\ud800": 1}}, "a key of here.a: character 1 is half of a surrogate pair"),
        ({1: 2}, "a key of here: must be a string, not a number"),
        ([math.nan], "here[0]: nan is not a JSON number"),
        ([-math.inf], "here[0]: -inf is not a JSON number"),
        ([(1, 2)], "here[0]: must be JSON (object, list, string, number, true, false, null), not a Python tuple"),
        ([b""], "here[0]: must be JSON (object, list, string, number, true, false, null), not a Python bytes"),
    ],
)
def test_what_json_or_a_database_has_not_is_refused_where_it_stands(value, message):
    with pytest.raises(InvalidInput) as caught:
        check_json(value, "here", depth=64)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_may_have_4300_digits_and_no_more(sign):
    largest = sign * (10**4300 - 1)
    check_json(largest, "here", depth=1)
    assert count_json_bytes(largest) >= 4300
    with pytest.raises(LimitExceeded, match="more than 4,300 digits"):
        check_json(sign * 10**4300, "here", depth=1)


def test_metadata_may_be_as_large_as_the_limit_and_no_larger():
    room = LIMITS.metadata_bytes - count_json_bytes({"k": ""})
    largest = {"k": "é" * (room // 2) + "x" * (room % 2)}
    assert check_metadata(largest, "here", LIMITS) == largest
    with pytest.raises(LimitExceeded, match=r"^here: 16,385 bytes of JSON; at most 16,384 are allowed$"):
        check_metadata({"k": largest["k"] + "x"}, "here", LIMITS)


def test_metadata_is_an_object_and_null_is_the_empty_one():
    assert check_metadata(None, "here", LIMITS) == {}
    with pytest.raises(InvalidInput, match=r"^here: must be a JSON object, not a list$"):
        check_metadata([], "here", LIMITS)
    with pytest.raises(LimitExceeded, match="64 are allowed"):
        check_metadata({"k": nested(64)}, "here", LIMITS)


def test_an_id_has_one_to_the_allowed_number_of_characters():
    assert check_id("ü" * 255, "id", 255) == "ü" * 255
    with pytest.raises(LimitExceeded, match=r"^id: 256 characters; at most 255 are allowed$"):
        check_id("ü" * 256, "id", 255)
    with pytest.raises(InvalidInput, match=r"^id: must not be empty; 1 to 255 characters are allowed$"):
        check_id("", "id", 255)


@pytest.mark.parametrize("bad", ["\n", "\x1b", "\x7f", "\x85", "\x00", "\ud800"])
def test_an_id_has_no_control_characters(bad):
    with pytest.raises(InvalidInput, match=r"^id: character 1 is "):
        check_id(f"a{bad}b", "id", 255)


@pytest.mark.parametrize(
    ("given_time", "milliseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01", 0),
        ("19700101T000001", 1000),
        ("1970-01-01 01:00:00.25+01:00", 250),
        (" 1970-01-01t00:00:00,5z ", 500),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        (1_700_000_000_000, 1_700_000_000_000),
        (1_700_000_000_000.9, 1_700_000_000_000),
        (631_152_000_000, 631_152_000_000),
        (20_000_000_000_000, 20_000_000_000_000),
        (1_760_000_000, 1_760_000_000_000),
        (1_760_000_000.25, 1_760_000_000_250),
        (1_000_000_000, 1_000_000_000_000),
        (20_000_000_000, 20_000_000_000_000),
        ("1760000000", 1_760_000_000_000),
        ("1760000000.25", 1_760_000_000_250),
        (" 1760000000000 ", 1_760_000_000_000),
    ],
)
def test_a_time_is_read_as_milliseconds_in_utc(given_time, milliseconds):
    assert parse_time(given_time, "here") == milliseconds


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "yesterday",
        "2025-13-01",
        "2025-02-30T10:00Z",
        "17111123123x",
        "12345",
        "2025-W01-1",
        "٢٠٢٥-01-01",
        "0000-01-01",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        0,
        1,
        -1_760_000_000,
        631_151_999,
        20_000_000_001,
        631_151_999_999,
        20_000_000_000_001,
        "631151999",
        pytest.param(10**5000, id="a number of 5,001 digits"),
        math.nan,
        math.inf,
        True,
        None,
        [],
    ],
)
def test_what_is_no_time_is_refused_with_an_example_of_one(bad):
    with pytest.raises(InvalidInput, match=r"^here: must be an ISO 8601 time such as .*, or a number of .*; not "):
        parse_time(bad, "here")


@pytest.mark.parametrize("number", [1_760_000_000_000_000, 1_760_000_000_000_000_000, "1760000000000000"])
def test_a_time_in_microseconds_or_nanoseconds_is_refused_with_a_hint(number):
    with pytest.raises(InvalidInput, match="are these microseconds or nanoseconds"):
        parse_time(number, "here")


@settings(deadline=None)
@given(st.datetimes().filter(lambda moment: 1990 <= moment.year < 2600))
def test_every_time_of_the_calendar_comes_back_to_the_millisecond(moment):
    milliseconds = parse_time(moment.isoformat(), "here")
    assert parse_time(milliseconds, "here") == milliseconds
    assert milliseconds % 1000 == moment.microsecond // 1000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting"),
        ("[NaN]", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' occurs twice"),
        ("9" * 4301, "4300"),
    ],
)
def test_loose_json_is_not_read(text, why):
    with pytest.raises(ValueError, match=why):
        load_json(text, "here")


def test_the_nearest_name_is_one_that_looks_alike_or_none():
    allowed = ("content", "metadata", "created_at")
    assert find_nearest("contnet", allowed) == "content"
    assert find_nearest("createdAt", allowed) == "created_at"
    assert find_nearest("zzz", allowed) is None


@pytest.mark.parametrize(
    "value",
    [nested(100), 10**5000, "\ud800" * 100, "x" * 10_000, object(), None],
    ids=["deep", "long number", "surrogates", "long text", "no JSON", "null"],
)
def test_an_error_can_show_every_value_in_a_few_words(value):
    assert len(describe(value).encode()) < 300
