"""Prints docs/tools.md: every tool as a client sees it, asked of the running server over stdio."""

import json
import sys
import tempfile
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import Tool

HEAD = """\
# Tools

Made by `make docs` from the running server; a test holds it equal. Every tool refuses arguments that it does not
know. Over stdio a call without `thread_id` works on the session's own thread, which every answer names. Every write
takes an idempotency key in `_meta` as `memstrata/idempotency-key`: the same request sent again with the same key does
nothing and gets the first answer again, for 24 hours.
"""


async def listed() -> list[Tool]:
    with tempfile.TemporaryDirectory() as folder:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "memstrata.server", "--toolsets", "all", "--data-dir", folder]
        )
        async with Client(stdio_client(server)) as client:
            return (await client.list_tools()).tools


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
    if properties:
        required = tool.input_schema.get("required", [])
        lines += ["| argument | type | default | |", "|---|---|---|---|"]
        lines += [argument(name, schema, name in required) for name, schema in properties.items()]
        lines.append("")
    answer = "text" if tool.output_schema is None else ", ".join(f"`{key}`" for key in tool.output_schema["properties"])
    lines += [f"Answers with {answer}.", ""]
    return "\n".join(lines)


def argument(name: str, schema: dict[str, Any], required: bool) -> str:
    default = "**required**" if required else f"`{json.dumps(schema['default'])}`" if "default" in schema else ""
    return f"| `{name}` | {kind(schema)} | {default} | {schema.get('description', '')} |"


def kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    bounds = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "at least"), ("maximum", "at most"), ("minLength", "at least"))
        if key in schema
    ]
    return " ".join([schema.get("type", "any"), *([f"({', '.join(bounds)})"] if bounds else [])])


def main() -> None:
    tools = anyio.run(listed)
    sys.stdout.write(HEAD + "\n" + "\n".join(described(tool) for tool in tools))


if __name__ == "__main__":
    main()
