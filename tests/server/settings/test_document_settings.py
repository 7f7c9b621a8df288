"""The settings of working memory: what goes together, where a JSON Schema comes from, and what is said when not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from layerlore.memory.parts.tokens import TokenCounter
from layerlore.server.runtime.engines import check_rules, open_engine
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import SettingsError, load_settings

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


@pytest.fixture
def toml(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        (tmp_path / "settings.toml").write_text(text, encoding="utf-8")
        return str(tmp_path / "settings.toml")

    return write


def problem(flags: dict[str, Any] | None = None, **sources: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags, **{"environ": {}, **sources})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def document(**settings: Any) -> dict[str, Any]:
    return {"working_memory": {"thread": settings}}


def test_by_default_both_documents_are_free_text() -> None:
    rules = load_settings(environ={}).working_memory
    assert (rules.max_bytes, rules.read_only) == (16_384, False)
    for scope in ("thread", "resource"):
        assert (rules.of(scope).format, rules.of(scope).template, rules.of(scope).json_schema) == ("text", "", {})


def test_the_two_documents_have_rules_of_their_own(toml: Any) -> None:
    text = """
    [working_memory]
    max_bytes = 500
    read_only = true
    [working_memory.thread]
    format = "markdown"
    template = "# State\\n"
    [working_memory.resource]
    format = "json"
    [working_memory.resource.json_schema]
    type = "object"
    properties.name.type = "string"
    """
    rules = load_settings(environ={}, config=toml(text)).working_memory
    assert (rules.max_bytes, rules.read_only) == (500, True)
    assert (rules.thread.format, rules.thread.template, rules.thread.json_schema) == ("markdown", "# State\n", {})
    assert (rules.resource.format, rules.resource.template, rules.resource.json_schema) == ("json", "", SCHEMA)


@pytest.mark.parametrize("source", ["table", "json", "file", "variable", "variable with a file"])
def test_a_schema_is_a_table_json_or_a_file(source: str, tmp_path: Path, toml: Any) -> None:
    file = tmp_path / "person.JSON"
    file.write_text(json.dumps(SCHEMA), encoding="utf-8")
    given = {"table": SCHEMA, "json": f" {json.dumps(SCHEMA)}", "file": str(file)}.get(source)
    variable = "LAYERLORE_WORKING_MEMORY__THREAD__JSON_SCHEMA"
    environ = {"variable": {variable: json.dumps(SCHEMA)}, "variable with a file": {variable: str(file)}}.get(
        source, {}
    )
    flags = document(json_schema=given) if given else {}
    config = toml('[working_memory.thread]\nformat = "json"\njson_schema = {type = "string"}' if environ else "")
    if not environ:
        flags["working_memory"]["thread"]["format"] = "json"
    loaded = load_settings(flags, environ=environ, config=config)
    assert loaded.working_memory.thread.json_schema == SCHEMA


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"format": "markdown"}, "format = 'markdown' needs a template, which must not be empty"),
        ({"format": "markdown", "template": " \n"}, "needs a template, which must not be empty"),
        ({"template": "# x"}, "template belongs to format = 'markdown', and the format is 'text'"),
        ({"format": "json", "template": "# x"}, "template belongs to format = 'markdown', and the format is 'json'"),
        ({"json_schema": SCHEMA}, "json_schema belongs to format = 'json', and the format is 'text'"),
        (
            {"format": "markdown", "template": "# x", "json_schema": SCHEMA},
            "json_schema belongs to format = 'json', and the format is 'markdown'",
        ),
        (
            {"format": "yaml"},
            "working_memory.thread.format (from flag --format): Input should be 'text', 'markdown' or",
        ),
        ({"fromat": "json"}, "did you mean working_memory.thread.format?"),
        ({"format": "json", "json_schema": "{no"}, "it is not valid JSON: Expecting property name"),
        ({"format": "json", "json_schema": "string"}, "a table, JSON that begins with {, or the path of a .json file"),
        ({"format": "json", "json_schema": "/none/x.json"}, "the file /none/x.json cannot be read: No such file"),
        ({"format": "json", "json_schema": [1]}, "Input should be a valid dictionary"),
    ],
)
def test_what_does_not_go_together_is_an_error(given: dict[str, Any], told: str) -> None:
    text = problem(document(**given))
    assert text.startswith("working_memory.thread")
    assert told in text


def test_a_schema_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    for name, content in (("text.json", b"hello"), ("list.json", b"[1]"), ("bytes.json", b"\xff\xfe\xff")):
        (tmp_path / name).write_bytes(content)
        told = problem(document(format="json", json_schema=str(tmp_path / name)))
        assert "working_memory.thread.json_schema" in told
        assert name in told or "valid dictionary" in told


@pytest.mark.parametrize("name", ["max_bytes", "read_only"])
def test_the_limits_of_the_settings_are_told(name: str) -> None:
    assert f"working_memory.{name}" in problem({"working_memory": {name: "lots"}})
    assert "greater than or equal to 1" in problem({"working_memory": {"max_bytes": 0}})


BAD_SCHEMAS = [
    ({"type": "strin"}, "working_memory.thread.json_schema.type: matches none of the 2 allowed kinds of value"),
    ({"$ref": "https://example.test/x"}, "$ref 'https://example.test/x' points to nothing"),
    ({"pattern": "("}, "'(' is not a valid regular expression"),
    ({"description": "x" * 17_000}, "16,384 are allowed"),
]


@pytest.mark.parametrize(("schema", "told"), BAD_SCHEMAS)
@pytest.mark.anyio
async def test_a_bad_schema_is_told_at_the_start_before_a_database_is_made(
    schema: Any, told: str, tmp_path: Path
) -> None:
    given = {**document(format="json", json_schema=schema), "data_dir": str(tmp_path / "kept")}
    with pytest.raises(SettingsError) as caught:
        await open_engine(load_settings(given, environ={}))
    assert told in str(caught.value)
    assert "working_memory.thread.json_schema" in str(caught.value)
    assert not (tmp_path / "kept").exists()


@pytest.mark.anyio
async def test_a_server_with_a_bad_schema_says_so_in_every_answer(caplog: pytest.LogCaptureFixture) -> None:
    settings = load_settings(
        {**document(format="json", json_schema={"type": "strin"}), "database": "sqlite://:memory:"}, environ={}
    )
    async with Client(build_server(settings)) as client:
        answer = await client.call_tool("list_threads", {})
        assert answer.is_error
        assert "working_memory.thread.json_schema.type" in str(answer.content)
    assert "cannot start: not a valid JSON Schema" in caplog.text


def test_a_template_larger_than_the_document_may_be_is_an_error() -> None:
    settings = load_settings(
        {"working_memory": {"max_bytes": 5, "thread": {"format": "markdown", "template": "# long"}}}, environ={}
    )
    with pytest.raises(
        SettingsError, match=r"working_memory\.thread\.template: 6 bytes; working_memory\.max_bytes is 5"
    ):
        check_rules(settings, TokenCounter(None))
