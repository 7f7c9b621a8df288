"""Working memory in Markdown with a template, and in JSON with a schema, through the tools."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.text.quotation import MARK

from ...server.tools.calling import Connect, Json, Tools, examples
from ...server.tools.documents import MAIN, MARKDOWN, PROFILE, TEMPLATE, TOKEN, content, get, refused, update

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "likes": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "home": {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False},
    },
    "additionalProperties": False,
}
JSON = {"resource": {"format": "json", "json_schema": SCHEMA}, "thread": {"format": "json"}}


async def test_secrets_in_json_are_masked_in_values_and_keys(connect: Connect) -> None:
    async with connect(working_memory=JSON) as tools:
        assert (await update(tools, {"a": [TOKEN], TOKEN: 1}, **MAIN))["masked"] == 2
        assert TOKEN not in json.dumps(await get(tools, **MAIN))


async def test_an_empty_document_with_a_template_is_the_form_to_fill_in(connect: Connect) -> None:
    async with connect(working_memory=MARKDOWN) as tools:
        text = await tools("get_working_memory", **PROFILE)
        assert text.startswith(
            f"<user-profile>\n<description>\n{MARK} Nothing is kept yet. This is the form to fill in: "
        )
        assert TEMPLATE in text
        kept = await get(tools, **PROFILE)
        assert (kept["format"], kept["template"], kept["content"]) == ("markdown", TEMPLATE, "")
        await update(tools, TEMPLATE.replace("Name:", "Name: Ana"), **PROFILE)
        assert "form to fill in" not in await tools("get_working_memory", **PROFILE)
        assert "Nothing is kept" in await tools("get_working_memory")


async def test_an_empty_document_with_a_schema_shows_the_schema(connect: Connect) -> None:
    async with connect(working_memory=JSON) as tools:
        text = await tools("get_working_memory", **PROFILE)
        assert "This is the JSON Schema of the object to keep" in text
        assert '"maxItems": 3' in text
        assert (await get(tools, **PROFILE))["schema"] == SCHEMA


@pytest.mark.parametrize("as_text", [False, True], ids=["object", "string"])
async def test_json_comes_as_an_object_or_as_a_string(connect: Connect, as_text: bool) -> None:
    def form(value: Json) -> Any:
        return json.dumps(value) if as_text else value

    async with connect(working_memory=JSON) as tools:
        await update(tools, form({"name": "Ana", "likes": ["tea"], "home": {}}), **PROFILE)
        assert await content(tools, **PROFILE) == {"name": "Ana", "likes": ["tea"], "home": {}}
        told = await update(tools, form({"likes": ["tea", "cake"], "home": {"city": "Lima"}}), mode="append", **PROFILE)
        assert (told["mode"], told["version"]) == ("append", 2)
        assert await content(tools, **PROFILE) == {
            "name": "Ana",
            "likes": ["tea", "cake"],
            "home": {"city": "Lima"},
        }
        assert '<value>\n{\n  "name": "Ana",\n' in await tools("get_working_memory", **PROFILE)
        await tools("undo", undo_id="last")
        assert await content(tools, **PROFILE) == {"name": "Ana", "likes": ["tea"], "home": {}}


WRONG: list[tuple[Any, str]] = [
    ("{not json", "content: this document is a JSON object, and that is no JSON (Expecting property name"),
    ("[1]", "content: this document is a JSON object; send one, not a list"),
    ("null", "not null"),
    (["a"], "not a list"),
    ('{"a": 1, "a": 2}', "the key 'a' occurs twice in one object"),
    ('{"a": NaN}', "NaN is not a JSON number"),
    ('{"a": 1e999}', "inf is not a JSON number"),
    ({"likes": ["a", 5]}, "content.likes["),
    ({"likes": ["a", "b", "c", "d"]}, "content.likes: must have at most 3 entries"),
    ({"home": {"town": "x"}}, "content.home: unknown key 'town'; allowed: city"),
    ({"age": "old"}, "content.age: must be an integer, not 'old'"),
]


@pytest.mark.parametrize("mode", ["replace", "append"])
async def test_json_that_does_not_fit_is_an_error_and_changes_nothing(connect: Connect, mode: str) -> None:
    async with connect(working_memory=JSON) as tools:
        await update(tools, {"name": "Ana", "likes": ["tea"]}, **PROFILE)
        for sent, told in WRONG:
            assert told in await refused(tools, content=sent, mode=mode, **PROFILE)
        kept = await get(tools, **PROFILE)
        assert (kept["version"], kept["content"]) == (1, {"name": "Ana", "likes": ["tea"]})


async def test_what_only_the_merge_makes_too_much_is_an_error_too(connect: Connect) -> None:
    async with connect(working_memory=JSON) as tools:
        await update(tools, {"likes": ["a", "b"]}, **PROFILE)
        error = await refused(tools, content={"likes": ["c", "d"]}, mode="append", **PROFILE)
        assert "content.likes: must have at most 3 entries" in error
        assert await content(tools, **PROFILE) == {"likes": ["a", "b"]}


async def test_a_document_outlives_a_change_of_its_format(connect: Connect) -> None:
    async with connect() as tools:
        await update(tools, "plain words", **PROFILE)
        await update(tools, '{"name": "Ana"}', **MAIN)
    async with connect(working_memory=JSON) as tools:
        assert await content(tools, **PROFILE) == "plain words"
        assert "plain words" in await tools("get_working_memory", **PROFILE)
        error = await refused(tools, content={"name": "Ana"}, mode="append", **PROFILE)
        assert "what is stored is no JSON object, since it was written under another format" in error
        assert await content(tools, **MAIN) == {"name": "Ana"}
        told = await update(tools, {"name": "Ana"}, mode="replace", **PROFILE)
        refusal = await tools.refused("undo", undo_id=told["undo"])
        assert "version 1 of the user profile does not fit the format" in refusal
    async with connect() as tools:
        assert await content(tools, **PROFILE) == '{"name":"Ana"}'


SAFE = st.text("abcäß \n<>&\"'\\", max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | SAFE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SAFE, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
async def json_tools(connect: Connect) -> AsyncIterator[Tools]:
    async with connect(working_memory=JSON) as opened:
        yield opened


@examples(15)
@given(first=st.dictionaries(SAFE, VALUES, max_size=4), as_text=st.booleans())
async def test_any_json_object_comes_back_as_it_was(json_tools: Tools, first: Json, as_text: bool) -> None:
    await update(json_tools, json.dumps(first) if as_text else first, **MAIN)
    found = await content(json_tools, **MAIN)
    assert repr(found) == repr(first)


MAYBE_PERSONS = st.fixed_dictionaries(
    {},
    optional={
        "name": SAFE | st.integers(),
        "age": st.integers(0, 99) | st.just("old"),
        "likes": st.lists(st.sampled_from("abcde"), max_size=4),
        "home": st.fixed_dictionaries({}, optional={"city": SAFE, "town": SAFE}),
    },
)


@examples(20)
@given(sent=st.lists(st.tuples(MAYBE_PERSONS, st.sampled_from(["replace", "append"])), max_size=5))
async def test_the_schema_holds_after_every_write_and_a_refused_one_changes_nothing(
    json_tools: Tools, sent: list[tuple[Json, str]]
) -> None:
    before = await content(json_tools, **PROFILE)
    for value, mode in sent:
        result = await json_tools.raw("update_working_memory", content=value, mode=mode, **PROFILE)
        after = await content(json_tools, **PROFILE)
        if result.is_error:
            assert after == before
        else:
            assert isinstance(after.get("name", ""), str)
            assert isinstance(after.get("age", 1), int)
            assert len(after.get("likes", [])) <= 3
            assert after.get("home", {}).keys() <= {"city"}
            assert after.keys() >= value.keys()
            again = await update(json_tools, value, mode=mode, **PROFILE)
            assert again["unchanged"] is True
        before = after
