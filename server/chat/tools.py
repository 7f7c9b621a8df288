"""The tools that a model may use: those of the memory, those of other MCP servers, and functions of the agent's own."""

import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent
from mcp.types import Tool as ListedTool

from layerlore.server.chat.memory import Memory, as_json
from layerlore.server.chat.model import ToolCall

Json = dict[str, Any]

OF_MEMORY = ("recall_memory", "remember", "forget", "get_working_memory", "update_working_memory", "plan")
"""What the model does by itself. Storing messages and asking for the context are the agent's work."""
_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_LONGEST_RESULT = 40_000


@dataclass(frozen=True)
class ToolResult:
    """The result of a call that the model sees, and the part that is stored."""

    text: str
    is_error: bool = False

    def clipped(self) -> "ToolResult":
        """A result that is too long for a model says that it was cut."""
        if len(self.text) <= _LONGEST_RESULT:
            return self
        rest = f"\n[cut here: {len(self.text) - _LONGEST_RESULT:,} more characters]"
        return ToolResult(self.text[:_LONGEST_RESULT] + rest, self.is_error)


@dataclass(frozen=True)
class Tool:
    """``asks``: a person approves each call of it. ``repeatable``: a call with an unknown outcome may be done again."""

    name: str
    description: str
    schema: Json
    run: Callable[[Json], Awaitable[ToolResult]]
    asks: bool = False
    repeatable: bool = False

    def for_model(self) -> Json:
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}


class Toolbox:
    """Tools by their names. A tool that the person allowed for the whole session needs no further question."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self.tools = {each.name: each for each in tools}
        self.allowed: set[str] = set()

    def add(self, *tools: Tool) -> None:
        self.tools |= {each.name: each for each in tools}

    def for_model(self) -> list[Json]:
        return [each.for_model() for each in self.tools.values()]

    # A sub-agent has no person to ask.
    def without_asking(self) -> "Toolbox":
        """Those that need no approval."""
        return Toolbox(each for each in self.tools.values() if not each.asks)

    def asks(self, call: ToolCall) -> bool:
        tool = self.tools.get(call.name)
        return tool is not None and tool.asks and tool.name not in self.allowed

    def repeatable(self, call: ToolCall) -> bool:
        tool = self.tools.get(call.name)
        # An unknown tool does nothing, so a second call of it does no harm.
        return tool is None or tool.repeatable

    async def run(self, call: ToolCall) -> ToolResult:
        """Never raises for what a model did wrong, or a tool: the model reads what happened."""
        tool = self.tools.get(call.name)
        if tool is None:
            return ToolResult(f"there is no tool {call.name!r}; there are: {', '.join(self.tools)}", is_error=True)
        try:
            arguments = call.read_arguments()
        except ValueError as error:
            return ToolResult(f"arguments: {error}", is_error=True)
        try:
            return (await tool.run(arguments)).clipped()
        except Exception as error:  # noqa: BLE001 - whatever a tool does, the model reads it and goes on
            return ToolResult(f"{type(error).__name__}: {error}", is_error=True)


def adopt(client: Client, listed: ListedTool, name: str, meta: Json | None = None) -> Tool:
    """A tool of an MCP server. A person approves its calls unless the server says that it only reads."""
    hints = listed.annotations

    async def run(arguments: Json) -> ToolResult:
        result = await client.call_tool(listed.name, arguments, meta=meta)  # type: ignore[arg-type]
        shown = [each.text if isinstance(each, TextContent) else f"[{each.type}]" for each in result.content]
        # Some tools answer with structured content alone.
        if not shown and result.structured_content is not None:
            shown = [as_json(result.structured_content)]
        return ToolResult("\n".join(shown), bool(result.is_error))

    return Tool(
        name,
        listed.description or "",
        listed.input_schema,
        run,
        # A server without hints may do anything, so the person decides.
        asks=not (hints and hints.read_only_hint),
        repeatable=bool(hints and (hints.read_only_hint or hints.idempotent_hint)),
    )


async def tools_of_memory(memory: Memory) -> list[Tool]:
    """The memory is the user's own, so that only what forgets asks first."""
    found = []
    for listed in (await memory.client.list_tools()).tools:
        if listed.name in OF_MEMORY:
            tool = adopt(memory.client, listed, listed.name, {"layerlore/thread": memory.thread_id})
            found.append(replace(tool, asks=bool(listed.annotations and listed.annotations.destructive_hint)))
    return found


async def tools_of_hosts(stack: contextlib.AsyncExitStack, file: Path) -> list[Tool]:
    """Connect to every server of a host's configuration file until the stack is closed. Raises ValueError, OSError."""
    found = []
    for name, entry in read_servers(file).items():
        try:
            client = await _connect(stack, entry)
            listed = (await client.list_tools()).tools
        except Exception as error:
            raise ValueError(f"{file}: server {name!r}: {error or type(error).__name__}") from error
        # Providers restrict the names of tools; the server's name keeps equal names of two servers apart.
        found += [adopt(client, each, _NAME.sub("_", f"{name}_{each.name}")[:_LONGEST_NAME]) for each in listed]
    return found


def read_servers(file: Path) -> dict[str, Json]:
    """``mcpServers`` as Claude Desktop, Claude Code and Cursor write it, or VS Code's ``servers``. Raises ValueError."""
    try:
        given = json.loads(file.read_text(encoding="utf-8"))
        servers: dict[str, Json] = given.get("mcpServers") or given.get("servers") or {}
        if not all("command" in entry or "url" in entry for entry in servers.values()):
            raise ValueError("each server needs a command or a url")
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(
            f'{file}: must be JSON such as {{"mcpServers": {{"NAME": {{"command": ...}}}}}} ({error})'
        ) from None
    return servers


async def _connect(stack: contextlib.AsyncExitStack, entry: Json) -> Client:
    """A server that is launched gets the variables that its entry names, and none of the keys of this process."""
    if "url" in entry:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=entry.get("headers"), timeout=60))
        return await stack.enter_async_context(Client(streamable_http_client(entry["url"], http_client=http)))
    # The SDK adds only harmless variables of its own choice when env is None.
    command = StdioServerParameters(
        command=entry["command"], args=entry.get("args", []), env=entry.get("env"), cwd=entry.get("cwd")
    )
    return await stack.enter_async_context(Client(command))
