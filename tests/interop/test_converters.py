"""The frameworks' own converters, run on the tools of every toolset."""

import json
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

from .python_environments import environment

CONVERTERS = Path(__file__).with_name("converters")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """The answer to ``tools/list``, as clients of the frameworks get it."""
    settings = load_settings(
        {"data_dir": str(tmp_path_factory.mktemp("data")), "toolsets": "all", "embedding": {"embedder": "none"}},
        environ={},
    )

    async def listed() -> Json:
        async with Client(build_server(settings)) as client:
            return (await client.list_tools()).model_dump(mode="json", by_alias=True, exclude_none=True)

    return anyio.run(listed)


def converted(program: str, framework: str, tools: Json) -> Any:
    """What a framework makes of the tools, in its own environment."""
    python = environment(framework)
    done = subprocess.run(
        [python, CONVERTERS / program],
        check=False,
        input=json.dumps({"tools": tools["tools"]}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_autogen_makes_a_model_of_every_tools_arguments(tools: Json) -> None:
    made = converted("autogen.py", "autogen", tools)
    assert {name: sorted(schema["properties"]) for name, schema in made.items()} == {
        tool["name"]: sorted(tool["inputSchema"]["properties"]) for tool in tools["tools"]
    }


@pytest.mark.parametrize("framework", ["google-genai", "google-adk"])
@pytest.mark.parametrize("way", ["converted", "whole"])
def test_google_declares_every_tool_with_all_its_arguments(tools: Json, framework: str, way: str) -> None:
    made = converted(f"{framework.replace('-', '_')}.py", framework, tools)[way]
    assert [each["name"] for each in made] == [tool["name"] for tool in tools["tools"]]
    for each, tool in zip(made, tools["tools"], strict=True):
        (schema,) = (each[key] for key in each if key.startswith("parameters"))
        assert sorted(schema.get("properties", {})) == sorted(tool["inputSchema"]["properties"])
        assert not list(_untyped(schema)), each["name"]


def _untyped(schema: Json, place: str = "") -> Any:
    """The places of nodes whose type was lost on the way."""
    branches = schema.get("anyOf") or schema.get("any_of") or []
    if not schema.get("type") and not branches:
        yield place
    for name, inner in schema.get("properties", {}).items():
        yield from _untyped(inner, f"{place}.{name}")
    for number, inner in enumerate([*branches, *([schema["items"]] if "items" in schema else [])]):
        yield from _untyped(inner, f"{place}[{number}]")


def test_openai_agents_sends_every_tool_as_strict_that_has_no_free_object(tools: Json) -> None:
    made = converted("openai_agents.py", "openai-agents", tools)
    assert list(made) == [tool["name"] for tool in tools["tools"]]
    for tool in tools["tools"]:
        one = made[tool["name"]]
        assert one["strict"] is not _has_free_object(tool["inputSchema"]), tool["name"]
        assert sorted(one["closed"]["required"]) == sorted(tool["inputSchema"]["properties"])
        assert not list(_untyped(one["closed"])), tool["name"]


def _has_free_object(schema: Json) -> bool:
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", []), *filter(None, [schema.get("items")])]
    return (schema.get("type") == "object" and not schema.get("properties")) or any(map(_has_free_object, inner))
