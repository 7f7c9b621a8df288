"""Every tool's schemas, of all toolsets, are what each provider's and each framework's converter takes."""

import json
from typing import Any

import jsonschema
import pytest
from mcp.types import Tool
from pydantic import TypeAdapter

from . import schema_rules
from .calling import Connect, Json, Tools
from .sample_calls import SAMPLE_CALLS, make_small_world
from .schema_rules import RULES, Rule, nodes, typed

pytestmark = pytest.mark.anyio


async def listed(tools: Tools) -> list[Tool]:
    return list((await tools.client.list_tools()).tools)


async def test_every_node_of_every_schema_has_a_type(all_tools: Tools) -> None:
    for tool in await listed(all_tools):
        assert list(typed(tool.input_schema)) == [], tool.name
        if tool.output_schema is not None:
            assert list(typed(tool.output_schema)) == [], tool.name


async def test_no_argument_is_a_union_with_null(all_tools: Tools) -> None:
    for tool in await listed(all_tools):
        assert "null" not in [node.get("type") for _, node in nodes(tool.input_schema)], tool.name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
async def test_each_converter_takes_all_tools(all_tools: Tools, rule: Rule) -> None:
    tools = await listed(all_tools)
    assert len(tools) == len(SAMPLE_CALLS)
    for tool in tools:
        assert list(rule(tool)) == [], tool.name


@pytest.mark.parametrize(
    ("schema", "refusing"),
    [
        ({}, {"openai_strict", "gemini", "gemini_json_schema", "autogen", "google_genai"}),
        ({"enum": ["a"]}, {"openai_strict", "gemini", "gemini_json_schema"}),
        ({"type": "string", "enum": ["", "a"]}, {"gemini"}),
        ({"type": "object", "additionalProperties": True}, {"openai_strict", "gemini", "google_genai"}),
        ({"type": "array"}, {"openai", "gemini", "google_genai"}),
        ({"type": "integer", "default": 5}, {"openai_strict", "gemini", "gemini_json_schema"}),
        ({"type": "integer", "minimum": 1}, {"openai_strict", "gemini", "gemini_json_schema"}),
        ({"type": ["string", "null"]}, {"openai_strict", "gemini", "autogen", "google_genai"}),
        (
            {"anyOf": [{"type": "string"}, {}]},
            {"openai_strict", "gemini", "gemini_json_schema", "autogen", "google_genai"},
        ),
    ],
    ids=lambda each: json.dumps(each) if isinstance(each, dict) else "",
)
def test_the_rules_refuse_what_the_converters_do(schema: Any, refusing: set[str]) -> None:
    tool = Tool(name="a", description="b", input_schema={"type": "object", "properties": {"x": schema}})
    assert {rule.__name__ for rule in RULES if _refuses(rule, tool)} == refusing


def _refuses(rule: Rule, tool: Tool) -> bool:
    try:
        return list(rule(tool)) != []
    except TypeError:  # as the converters fail on it
        return True


async def test_the_providers_own_types_take_all_tools(all_tools: Tools) -> None:
    import anthropic.types
    import openai.types.chat

    of_anthropic = TypeAdapter(anthropic.types.ToolParam)
    of_openai = TypeAdapter(openai.types.chat.ChatCompletionFunctionToolParam)
    for tool in await listed(all_tools):
        described: Json = {"name": tool.name, "description": tool.description}
        of_anthropic.validate_python({**described, "input_schema": tool.input_schema})
        for strict, schema in ((False, tool.input_schema), (True, schema_rules.strict(tool.input_schema))):
            of_openai.validate_python(
                {"type": "function", "function": {**described, "parameters": schema, "strict": strict}}
            )


async def test_every_tool_takes_each_of_its_arguments_empty_as_if_it_was_left_out(connect: Connect) -> None:
    """Strict mode has a model give them all; the table's own calls are without."""
    refused: dict[str, set[str]] = {}
    for way in ("as in the table", "filled"):
        async with connect(toolsets="all", thread="main", resource=way) as tools:
            await make_small_world(tools)
            schemas = {tool.name: schema_rules.strict(tool.input_schema) for tool in await listed(tools)}
            answers = {}
            for name, arguments in SAMPLE_CALLS.items():
                given = schema_rules.filled(schemas[name], arguments) if way == "filled" else arguments
                if way == "filled":
                    jsonschema.validate(given, schemas[name])
                answers[name] = await tools.raw(name, **given)
        refused[way] = {name for name, answer in answers.items() if answer.is_error}
    assert refused["filled"] == refused["as in the table"], answers


async def test_a_call_that_fits_the_schema_as_strict_mode_makes_it_works(connect: Connect) -> None:
    """Every key of every object given, as a provider's strict mode has a model do."""
    calls: list[tuple[str, Json]] = [
        (
            "add_messages",
            {
                "messages": [{"role": "user", "content": [{"type": "text", "text": "Tea is at four."}]}],
                "thread_id": "",
                "replace": False,
            },
        ),
        (
            "get_messages",
            {
                **dict.fromkeys(("limit", "offset", "before", "after", "max_tokens"), 0),
                "thread_id": "",
                "since": "",
                "until": "",
                "roles": [],
                "part": "",
            },
        ),
        (
            "update_thread",
            {"thread_id": "", "title": "", "metadata": '{"project": "tea"}', "window": ""},
        ),
        (
            "update_working_memory",
            {
                "content": "tea",
                "scope": "thread",
                "mode": "replace",
                "replace_line": "",
                "thread_id": "",
            },
        ),
        (
            "plan",
            {
                "action": "create",
                "plan": {
                    "goal": "Serve tea",
                    "current_phase": "",
                    "iteration": 0,
                    "steps": [{"id": "", "phase": "", "description": "boil", "status": "pending", "result": ""}],
                },
                "expected_revision": 0,
                "revision": 0,
                "thread_id": "",
            },
        ),
        (
            "remember",
            {
                "content": "Tea is at four",
                "evidence": "",
                "source": "caller",
                "kind": "fact",
                "replaces": "",
                "expires_at": "",
                "thread_id": "",
            },
        ),
        (
            "list_threads",
            {
                "thread_id": "",
                "metadata": '{"project": "tea"}',
                "limit": 0,
                "cursor": "",
            },
        ),
        (
            "suspend_run",
            {
                "run_id": "r",
                "state": '{"step": 1}',
                "workflow_id": "",
                "metadata": '{"project": "tea"}',
                "pending_tool_calls": [],
                "reason": "",
                "ttl_seconds": 0,
                "claim": "",
                "thread_id": "",
            },
        ),
        ("resume_run", {"run_id": "r", "tool_call_id": "", "data": '{"approved": true}', "lease_seconds": 0}),
    ]
    async with connect(toolsets="all", thread="main") as tools:
        schemas = {tool.name: schema_rules.strict(tool.input_schema) for tool in await listed(tools)}
        answers = {}
        for name, arguments in calls:
            jsonschema.validate(arguments, schemas[name])
            answers[name] = await tools(name, **arguments)
        assert "#1 user: Tea is at four." in answers["get_messages"]
        assert answers["update_thread"]["metadata"] == {"project": "tea"}
        assert [each["thread_id"] for each in answers["list_threads"]["threads"]] == ["main"]
        assert "iteration 1" in answers["plan"]
        assert answers["resume_run"]["metadata"] == {"project": "tea"}
        assert answers["resume_run"]["resumed"][0]["data"] == {"approved": True}
