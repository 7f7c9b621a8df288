"""JSON Schemas of others: what can be used, what violations are told, and that every check ends."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from growth import grows_in_step
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from layerlore.memory.rules import json_schema
from layerlore.memory.rules.json_schema import SCHEMA_BYTES, check_against, check_schema
from layerlore.storage.core.errors import InvalidInput, LimitExceeded

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
        "mood": {"enum": ["good", "bad", None]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 3},
        "home": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
ANA = {"name": "Ana", "age": 41}


def violations(value: Any, schema: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        check_against(value, schema, "content")
    return str(caught.value)


def refusal(schema: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        check_schema(schema, "resume_schema")
    return str(caught.value)


def test_a_value_that_fits_is_taken() -> None:
    check_schema(PERSON, "schema")
    check_against({**ANA, "tags": ["a", "b"], "home": {"city": "Lima"}, "mood": None}, PERSON, "content")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "content: must be an object, not a list"),
        ({"name": "Ana"}, 'content: lacks "age"'),
        ({}, 'content: lacks "name", "age"'),
        ({**ANA, "name": "A"}, "content.name: must have at least 2 characters"),
        ({**ANA, "age": 1.5}, "content.age: must be an integer, not a number"),
        ({**ANA, "age": True}, "content.age: must be an integer, not a boolean"),
        ({**ANA, "age": 150}, "content.age: must be less than 150"),
        ({**ANA, "mood": "fine"}, 'content.mood: must be one of "good", "bad", null, not \'fine\''),
        ({**ANA, "tags": ["a", 1]}, "content.tags[1]: must be a string, not a number"),
        ({**ANA, "tags": ["a", "a"]}, "content.tags: has an entry twice; its entries must be unique"),
        ({**ANA, "tags": list("abcd")}, "content.tags: must have at most 3 entries"),
        ({**ANA, "home": {}}, 'content.home: lacks "city"'),
        ({**ANA, "hom": 1}, "content: unknown key 'hom'; allowed: age, home, mood, name, tags; did you mean 'home'?"),
    ],
)
def test_a_violation_names_its_path_and_what_is_allowed(value: Any, told: str) -> None:
    assert violations(value, PERSON) == told


@pytest.mark.parametrize(
    ("value", "schema", "told"),
    [
        (1, {"anyOf": [{"type": "string"}, {"type": "object"}]}, "must be a string, not a number, or must be an obj"),
        ({"a": {"b": 1}}, {"anyOf": [{"properties": {"a": {"required": ["c"]}}}, {"type": "string"}]}, 'lacks "c"'),
        (2, {"oneOf": [{"type": "number"}, {"type": "integer"}]}, "matches more than one"),
        (2, {"not": {"type": "number"}}, 'must not match {"type": "number"}'),
        (2, {"const": 3}, "must be 3"),
        ({"a": 1}, {"properties": {"a": False}}, "content.a: no value is allowed here"),
        ({"a": 1}, {"additionalProperties": False}, "unknown key 'a'; no other is allowed"),
        ("ab", {"pattern": "^b"}, 'must match the pattern "^b"'),
        ({"a": 1, "b": 2}, {"properties": {"a": {}}, "unevaluatedProperties": False}, "'b' was unexpected"),
        ({"a": 1}, {"dependentRequired": {"a": ["b"]}}, "'b' is a dependency of 'a'"),
        ({"x" * 90: 1}, {"additionalProperties": {"type": "string"}}, f"content.{'x' * 40}…: must be a string"),
    ],
)
def test_every_kind_of_rule_is_told_in_words(value: Any, schema: Any, told: str) -> None:
    assert told in violations(value, schema)


def test_at_most_five_violations_are_told() -> None:
    text = violations(dict.fromkeys("abcdefg", 1), {"additionalProperties": {"type": "string"}})
    assert text.count("must be a string") == 5
    assert text.endswith("; and more")


def test_a_large_value_is_not_repeated_in_the_error() -> None:
    schema = {"dependentRequired": {"a": ["b"]}, "not": {}, "minProperties": 3, "enum": [{"x": "y" * 5000}]}
    assert len(violations({"a": "long " * 3000}, schema)) < 1000


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ([], "resume_schema: must be a JSON Schema, which is an object, not a list"),
        (True, "not a boolean"),
        (
            {"type": "strin"},
            'resume_schema.type: matches none of the 2 allowed kinds of value: must be one of "array',
        ),
        ({"properties": []}, "resume_schema.properties: must be an object, not a list"),
        ({"properties": {"a": {"minimum": "1"}}}, "resume_schema.properties.a.minimum: must be a number, not '1'"),
        ({"$schema": "https://example.test/mine"}, "allowed: https://json-schema.org/draft/2020-12/schema"),
        ({"$schema": 1}, "unknown draft"),
        (
            {"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}},
            "$schema is allowed only at the top",
        ),
        ({"pattern": "("}, "'(' is not a valid regular expression: missing )"),
        ({"pattern": "(?R)"}, "from character 0 on; ECMA-262's syntax is allowed"),
        ({"pattern": "a{e<=3}"}, "from character 1 on"),
        ({"patternProperties": {"[": True}}, "'[' is not a valid regular expression"),
        ({"pattern": "a" * 2001}, "2,001 characters; at most 2,000 are allowed"),
        ({"$ref": "https://example.test/schema.json"}, "points to nothing; it must name a place in this schema"),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "nothing is fetched"),
        ({"$ref": "file:///etc/passwd"}, "nothing is fetched"),
        ({"$ref": "#/$defs/b", "$defs": {"a": {}}}, "$ref '#/$defs/b' points to nothing"),
        ({"$ref": "#/title", "title": "x"}, "points to something that is not a schema"),
        ({"$ref": "#/title/0", "title": "x"}, "points to something that is not a schema"),
        ({"$ref": "#/title/x", "title": "x"}, "points to nothing"),
        ({"$ref": "#/default", "default": {"minimum": "1"}}, "not a valid JSON Schema"),
        ({"$dynamicRef": "#nowhere"}, "points to nothing"),
        ({"$id": "http://[", "$ref": "#"}, "its $id is not a valid URI"),
        ({"$ref": "http://["}, "points to nothing"),
        ({"patternProperties": {"a": True}, "allOf": [{"unevaluatedProperties": False}]}, "cannot be checked here"),
        ({"description": "x" * SCHEMA_BYTES}, "16,384 are allowed"),
        ({"default": float("nan")}, "not a JSON number"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_the_place(schema: Any, told: str) -> None:
    text = refusal(schema)
    assert told in text
    assert "resume_schema" in text
    assert len(text) < 700


def test_a_schema_may_be_as_large_as_the_limit_and_no_larger() -> None:
    frame = len(json.dumps({"description": ""}, separators=(",", ":")))
    check_schema({"description": "x" * (SCHEMA_BYTES - frame)}, "schema")
    with pytest.raises(LimitExceeded, match="16,385 bytes"):
        check_schema({"description": "x" * (SCHEMA_BYTES - frame + 1)}, "schema")


@pytest.mark.parametrize("number", ["07", "06", "04"])
def test_an_older_draft_is_followed_where_it_is_named(number: str) -> None:
    schema = {
        "$schema": f"http://json-schema.org/draft-{number}/schema#",
        "definitions": {"word": {"type": "string", "pattern": "^[a-z]+$"}},
        "properties": {"x": {"$ref": "#/definitions/word"}, "y": {"items": [{"type": "string"}]}},
    }
    check_against({"x": "tea", "y": ["a", 1]}, schema, "content")
    assert violations({"x": 1}, schema) == "content.x: must be a string, not a number"
    assert "must match the pattern" in violations({"x": "Tea"}, schema)


def test_a_reference_to_itself_describes_a_tree() -> None:
    schema = {"properties": {"left": {"$ref": "#"}, "name": {"type": "string"}}, "additionalProperties": False}
    check_against({"left": {"left": {"name": "a"}}}, schema, "content")
    assert violations({"left": {"left": {"name": 1}}}, schema).startswith("content.left.left.name: must be a string")


def test_references_by_anchor_and_by_id_inside_of_the_schema_work() -> None:
    schema = {
        "$id": "https://example.test/root",
        "$defs": {
            "a": {"$anchor": "word", "type": "string"},
            "b": {"$id": "inner", "$ref": "#/$defs/c", "$defs": {"c": {"type": "integer"}}},
        },
        "properties": {"x": {"$ref": "#word"}, "y": {"$ref": "inner"}},
    }
    check_against({"x": "a", "y": 1}, schema, "content")
    assert violations({"x": 1}, schema) == "content.x: must be a string, not a number"
    assert violations({"y": "a"}, schema) == "content.y: must be an integer, not 'a'"


def nested(depth: int, keyword: str, leaf: Any) -> Any:
    """Each definition applies the next one twice: two to the power of `depth` evaluations."""
    steps = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$defs": {**steps, f"d{depth}": leaf}, "$ref": "#/$defs/d0"}


def unevaluated(depth: int) -> Any:
    schema: Any = {"properties": {"a": {}}}
    for _ in range(depth):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


BOMBS = [
    ({"a": 1}, nested(28, "allOf", {"type": "object"})),
    ({"a": "x" * 16_000}, nested(28, "anyOf", {"type": "string"})),
    ({"a": 1}, nested(28, "oneOf", {"type": "string"})),
    ({"a": 1}, unevaluated(22)),
    ("a" * 5000 + "!", {"pattern": "(a|aa)+$"}),
    ({"a" * 5000 + "!": 1}, {"patternProperties": {"(a|aa)+$": False}}),
    ({"a" * 5000 + "!": 1}, {"patternProperties": {"(a|aa)+$": True}, "additionalProperties": False}),
    (dict.fromkeys(map(str, range(2_000)), 1), {"patternProperties": {f"a{number}": False for number in range(60)}}),
    (10**400, {"multipleOf": 0.5}),
    ([1] * 300_000, {"items": {"type": "integer"}}),
]


@pytest.mark.parametrize(("value", "schema"), BOMBS, ids=range(len(BOMBS)))
def test_a_check_that_would_not_end_is_ended_with_words(value: Any, schema: Any) -> None:
    with pytest.raises(LimitExceeded):
        check_against(value, schema, "content")


def unlike(count: int) -> list[Any]:
    return [{"a": number} for number in range(count)]


@pytest.mark.parametrize(
    "make",
    [
        lambda many: {"$schema": "http://json-schema.org/draft-04/schema", "enum": many},
        lambda many: {"$schema": "http://json-schema.org/draft-04/schema", "properties": {"a": {"enum": [[], *many]}}},
        lambda many: {"$schema": "http://json-schema.org/draft-07/schema", "type": many},
        lambda many: {"type": many},
    ],
    ids=range(4),
)
def test_the_judging_of_a_schema_grows_in_step_with_what_it_lists(make: Callable[[list[Any]], Any]) -> None:
    def judge(count: int) -> None:
        with contextlib.suppress(InvalidInput):
            check_schema(make(unlike(count)), "resume_schema")

    assert grows_in_step(judge, 1_300)


@pytest.mark.parametrize(
    "pattern",
    ["(((a{1000}){1000}){1000})", "a{10000000}", "(?:ab|c){1000000}", "(?:x(?:ab|[c)]){200}){200}", "(" * 1999],
)
def test_a_pattern_that_would_fill_the_memory_is_refused_before_it_is_compiled(pattern: str) -> None:
    refusal({"pattern": pattern})


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        (r"^\d{4}-\d{2}-\d{2}$", "2025-03-01", "2025-3-1"),
        (r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "0190f6a0-0000-7000-8000-000000000001", "0190f6a0"),
        (r"^(?i)tea$", "TEA", "teas"),
        (r"^(?<year>\d+)/(?P<day>\d+)$", "1/2", "1-2"),
        (r"^[^\]\[a-c]+$", "xyz", "x]"),
        (r"^\p{Lu}", "Ärger", "ärger"),
        (r"^a(?=b)(?!c)b(?<=b)(?<!a)$", "ab", "abc"),
        (r"^\{[)(]\}$", "{(}", "{}"),
    ],
)
def test_patterns_as_schemas_have_them_work(pattern: str, fits: str, not_: str) -> None:
    check_against(fits, {"pattern": pattern}, "content")
    assert "must match the pattern" in violations(not_, {"pattern": pattern})


def test_telling_unique_objects_apart_grows_in_step_with_their_number() -> None:
    assert grows_in_step(lambda count: check_against(unlike(count), {"uniqueItems": True}, "content"), 20_000)


def test_true_is_not_one_and_one_is_one_point_nought() -> None:
    check_against([1, True, 0, False, "1", None, [1], [True]], {"uniqueItems": True}, "content")
    violations([1, 1.0], {"uniqueItems": True})
    violations([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], {"uniqueItems": True})


def test_a_schema_is_not_changed_by_its_use() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    check_against({}, schema, "content")
    assert schema == {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}


def test_format_is_a_remark() -> None:
    check_against("no mail", {"format": "email"}, "content")


SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | st.sampled_from(["", "a", "ab"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
KEYWORDS: dict[str, Any] = {
    "type": st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", ["string", "null"]]),
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "const": VALUES,
    "minimum": st.integers(-2, 2),
    "maxLength": st.integers(0, 2),
    "pattern": st.sampled_from(["a", "^b", "[a-c]{2}"]),
    "maxItems": st.integers(0, 2),
    "uniqueItems": st.booleans(),
    "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
    "minProperties": st.integers(0, 2),
    "$ref": st.sampled_from(["#", "#/$defs/x", "#/properties/a", "#/default", "#/enum/0"]),
    "default": VALUES,
}


def _schemas(inner: Any) -> Any:
    some = st.lists(inner, min_size=1, max_size=2)
    parts = {
        "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner, max_size=1),
        "items": inner,
        "contains": inner,
        "not": inner,
        "if": inner,
        "then": inner,
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "$defs": st.dictionaries(st.just("x"), inner, max_size=1),
        "unevaluatedProperties": inner,
    }
    return _some_of({**KEYWORDS, **parts})


def _some_of(keywords: dict[str, Any]) -> Any:
    names = st.lists(st.sampled_from(sorted(keywords)), unique=True, max_size=4)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in chosen}))


SCHEMAS = st.recursive(st.booleans() | _some_of(KEYWORDS), _schemas, max_leaves=6)


@hypothesis_settings(max_examples=300, deadline=None)
@given(VALUES, SCHEMAS.filter(lambda schema: isinstance(schema, dict)))
def test_a_schema_that_is_taken_judges_as_the_package_does_by_itself(value: Any, schema: Any) -> None:
    try:
        check_schema(schema, "schema")
    except InvalidInput:
        return
    try:
        check_against(value, schema, "content")
    except LimitExceeded:
        return
    except InvalidInput:
        fits = False
    else:
        fits = True
    assert fits is jsonschema.Draft202012Validator(schema).is_valid(value)


@hypothesis_settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([*KEYWORDS, "$id", "$anchor", "$schema", "properties", "items", "a", "$dynamicRef"]),
                inner | st.sampled_from(["#", "#/a", "#/a/0", "a", "http://[", "#a", "("]),
                max_size=4,
            )
        ),
    )
)
def test_no_json_at_all_brings_another_error_than_a_refusal(schema: Any) -> None:
    try:
        check_schema(schema, "schema")
    except InvalidInput:
        return
    told = []
    for value in (schema, {"a": [1, "x", None]}, "a"):
        try:
            check_against(value, schema, "content")
        except InvalidInput as error:
            told.append(str(error))
    assert all(text.startswith("content") for text in told)


def test_a_budget_is_each_checks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema, "_MOST_STEPS", most := 1_000)
    schema = {"items": {"type": "integer"}}
    for _ in range(2):
        check_against([1] * (most - 10), schema, "content")
    with pytest.raises(LimitExceeded):
        check_against([1] * most, schema, "content")
