"""Prints docs/tools.md: every tool as a client sees it, asked of the running server over stdio."""

import json
import sys
import tempfile
from functools import cache
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import Tool

from layerlore.memory.parts.tokens import load_counter
from layerlore.server.access.caller import join_rights
from layerlore.server.settings.settings import TOOLSETS, load_settings
from layerlore.server.tools.declaration import UNLISTED_META, Declaration
from layerlore.server.tools.toolsets import DECLARATIONS, choose_tools

HEAD = """\
# Tools

Made by `make docs` from the running server; a test holds it equal. Every tool refuses arguments that it does not
know. Null is left out, and so is an empty value (`""`, `0`, `[]`, `{}`) in a call that gives every argument, or where it
can mean nothing else; what it means elsewhere is said. Objects and lists may come as JSON text. This is the list over
stdio; on other connections `thread_id` says what it is there if it is left out
([which conversation](messages.md#which-conversation)). Every write takes an idempotency key in `_meta` as
`layerlore/idempotency-key`: the same request sent again with the same key does nothing and gets the first answer again,
for 24 hours.

An argument that is marked as *not listed* is taken like the others. No model needs it, so that it costs none: its schema
stands in the tool's `_meta`, under `layerlore/unlisted-arguments`.

## Which tools are listed

`--toolsets` (`LAYERLORE_TOOLSETS`, `toolsets` in the file) takes any of these names, with commas between them.

"""

CHOICES = {
    "chat": "a host whose model keeps its own memory, such as Claude Desktop",
    "agent": "programs that call models: agents with runs, steps and sub-agents",
    "core,threads,curation": "the default: either, and background work by the model of a host",
    "core": "messages, recall, working memory, the plan",
    "threads": "conversations",
    "runs": "runs that wait, steps, events, attempts, briefings",
    "curation": "background work by the model of a host",
    "admin": "erasing for good",
    "all": "everything",
}
"""What ``--toolsets`` may say, and for whom that is."""


async def listed() -> list[Tool]:
    # The shared server may still write there when the client has ended.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "layerlore.server", "--toolsets", "all", "--data-dir", folder]
        )
        async with Client(stdio_client(server)) as client:
            return (await client.list_tools()).tools


NOT_LISTED = "*Not listed.*"


def choices(tools: list[Tool]) -> str:
    """What each choice lists, for whom, and what that costs a conversation."""
    counter = load_counter()
    rows = ["| `--toolsets` | for | tools | tokens |", "|---|---|---|---|"]
    for choice, purpose in CHOICES.items():
        chosen = choose_tools(load_settings({"toolsets": choice}, environ={}))
        names = {each.name for each in chosen}
        shown = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in tools
            if tool.name in names
        ]
        cost = round(counter.text(json.dumps(shown)), -1)
        rows.append(f"| `{choice}` | {purpose} | {', '.join(grouped(chosen, choice))} | {cost:,} |")
    return "\n".join([*rows, ""])


def grouped(chosen: list[Declaration], choice: str) -> list[str]:
    """The toolsets of which every tool is among them, but the one that the choice is, and the other tools' names."""
    left = [each for each in DECLARATIONS if each not in chosen]
    whole = [name for name in TOOLSETS if name != choice and not any(each.toolset == name for each in left)]
    return [*whole, *(f"`{each.name}`" for each in chosen if each.toolset not in whole)]


def described(tool: Tool) -> str:
    hints = tool.annotations
    assert hints is not None
    marks = [
        name
        for name, on in (
            ("read-only", hints.read_only_hint),
            ("destructive", hints.destructive_hint),
            ("idempotent", hints.idempotent_hint),
        )
        if on
    ]
    lines = [f"## `{tool.name}`", "", f"*{tool.title}*" + (f" ({', '.join(marks)})" if marks else ""), ""]
    lines += [" ".join((tool.description or "").split()), ""]
    properties: dict[str, Any] = tool.input_schema.get("properties", {})
    unlisted: dict[str, Any] = (tool.meta or {}).get(UNLISTED_META, {})
    if properties:
        lines += ["| argument | type | default | |", "|---|---|---|---|"]
        lines += [argument(name, schema, checked(tool.name)[name]) for name, schema in properties.items()]
        lines += [argument(name, schema, checked(tool.name)[name], NOT_LISTED) for name, schema in unlisted.items()]
        lines.append("")
    answer = "text" if tool.output_schema is None else ", ".join(f"`{key}`" for key in tool.output_schema["properties"])
    declared = declaration(tool.name)
    ways = " or ".join(dict.fromkeys(f"`{join_rights(declared.needs(way))}`" for way in declared.ways))
    lines += [f"Answers with {answer}. Needs the right {ways}.", ""]
    if declared.reduced:
        lines += [f"Without the right `read` it answers with: {declared.reduced}.", ""]
    return "\n".join(lines)


def declaration(tool: str) -> Declaration:
    (declared,) = (each for each in DECLARATIONS if each.name == tool)
    return declared


@cache
def checked(tool: str) -> dict[str, Any]:
    """The tool's arguments as they are checked, with the bounds and defaults that are not listed."""
    properties: dict[str, Any] = declaration(tool).tool.fn_metadata.arg_model.model_json_schema()["properties"]
    return properties


def argument(name: str, listed: dict[str, Any], checked: dict[str, Any], mark: str = "") -> str:
    default = f"`{json.dumps(checked['default'])}`" if checked.get("default") is not None else ""
    shown = default if "default" in checked else "**required**"
    told = listed.get("description") or listed.get("anyOf", [{}])[0].get("description", "")
    return f"| `{name}` | {kind({**bounds(checked), **listed})} | {shown} | {' '.join(filter(None, (mark, told)))} |"


def bounds(checked: dict[str, Any]) -> dict[str, Any]:
    return {key: checked[key] for key in ("minimum", "maximum", "minLength") if key in checked}


def kind(schema: dict[str, Any]) -> str:
    if {"type": "number"} in schema.get("anyOf", []):
        return "any JSON"
    if "anyOf" in schema:
        return " or ".join(kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return f"list of {kind(schema['items'])}"
    said = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "at least"), ("maximum", "at most"), ("minLength", "at least"))
        if key in schema
    ]
    return " ".join([schema["type"], *([f"({', '.join(said)})"] if said else [])])


def main() -> None:
    tools = anyio.run(listed)
    sys.stdout.write("\n".join([HEAD + choices(tools), *(described(tool) for tool in tools)]))


if __name__ == "__main__":
    main()
