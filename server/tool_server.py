"""The MCP server: the SDK's, with calls checked, sent to their actions, and answered in our own way."""

import difflib
import logging
from collections.abc import Sequence
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from mcp.types import Tool as ListedTool
from pydantic import ValidationError

from layerlore.server.access.too_much import TooMuch, refused_call
from layerlore.server.answering import tool_result
from layerlore.server.caller import Default, default_of, principal_of
from layerlore.server.instructions import told_for
from layerlore.server.permitting import admitted
from layerlore.server.process import Process
from layerlore.server.tools.declaring import Declaration
from layerlore.server.tools.leaving_out import without_left_out
from layerlore.server.toolsets import ALL_TOOLS
from layerlore.storage.errors import LayerloreError

log = logging.getLogger(__name__)

_MOST_PROBLEMS = 5
# What is shown of a name that does not exist, in characters.
_LONGEST_NAME = 64


class ToolServer(MCPServer[Process]):
    """An MCPServer whose tools are declarations; their actions belong to the process's runtime.

    A call with an argument that the tool does not have is refused. Errors are ToolErrors that a model can act on;
    what is raised unexpectedly stays in the log.
    """

    def __init__(self, name: str, declarations: Sequence[Declaration], **options: Any) -> None:
        self._declared: dict[str, Tool] = {each.tool.name: each.tool for each in declarations}
        self._declarations = {each.signature.__name__: each for each in declarations}
        super().__init__(name, tools=list(self._declared.values()), **options)

    async def list_permitted(
        self, ctx: ServerRequestContext[Process, Any], _: PaginatedRequestParams
    ) -> ListToolsResult:
        """The tools that whoever asks has the right to."""
        rights = principal_of(ctx).rights
        listed = await self.list_tools()
        may = [tool for tool in listed if self._declarations[tool.name].open_to(rights)]
        return ListToolsResult(tools=_told_for(may, default_of(ctx)))

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Process, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Check, run and answer one call. Raises ToolError for every failure that is the caller's to mend, and MCPError
        for a tool that is not there, which in both eras is a protocol error."""
        assert context is not None
        process = context.request_context.lifespan_context
        if name not in self._declared:
            if process.settings.memory == "off" and name in ALL_TOOLS:
                raise ToolError(f"there is no tool {name!r}; memory is switched off (memory = off)")
            near = _nearest(name, list(self._declared))
            raise MCPError(INVALID_PARAMS, process.masked(f"there is no tool {_quoted(name)}{near}"))
        try:
            return tool_result(await self._act(process, name, arguments, context), process.settings.limits.answer_bytes)
        except TooMuch as refused:
            return refused_call(refused)
        except LayerloreError as error:
            raise ToolError(process.masked(str(error))) from error
        except ToolError as error:
            raise ToolError(process.masked(str(error))) from error.__cause__
        except Exception as error:
            # The SDK would answer with the exception's own text, which may hold SQL or what others stored.
            log.exception("%s failed unexpectedly", name)
            raise ToolError(f"{name} failed unexpectedly; the server's log says why") from error

    async def _act(self, process: Process, name: str, arguments: dict[str, Any], context: Context[Process, Any]) -> Any:
        declaration = self._declarations[name]
        caller = await admitted(context.request_context, declaration.needs(arguments), name)
        values, given = checked(self._declared[name], arguments)
        runtime = await process.runtime()
        answer = await runtime.act(name, caller, values, given)
        return declaration.told_to(caller.principal.rights, answer)


def _told_for(tools: Sequence[ListedTool], default: Default) -> list[ListedTool]:
    """The same, saying what thread_id means on the connection."""

    def told(tool: ListedTool) -> ListedTool:
        properties = tool.input_schema.get("properties", {})
        schema = properties.get("thread_id", {})
        if "description" not in schema:
            return tool
        described = {**schema, "description": told_for(schema["description"], default)}
        taken = {**tool.input_schema, "properties": {**properties, "thread_id": described}}
        return tool.model_copy(update={"input_schema": taken})

    return [told(tool) for tool in tools]


def checked(tool: Tool, arguments: dict[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """The arguments as the tool's action takes them, with defaults for what is left out, and the names of those that
    are not. Raises ToolError."""
    allowed = list(tool.parameters.get("properties", {}))
    unknown = [name for name in arguments if name not in allowed]
    if unknown:
        takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
        raise ToolError(f"{tool.name} has no argument {_quoted(unknown[0])}{_nearest(unknown[0], allowed)} ({takes})")
    given = without_left_out(tool, arguments)
    try:
        return tool.fn_metadata.validate_arguments(given), frozenset(given)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        told = "; ".join(f"{_place(problem['loc'])}: {problem['msg']}" for problem in problems[:_MOST_PROBLEMS])
        raise ToolError(f"{tool.name}: {told}") from error


def _place(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".") or "arguments"


def _quoted(name: str) -> str:
    return repr(name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…")


def _nearest(name: str, allowed: list[str]) -> str:
    near = difflib.get_close_matches(name[:_LONGEST_NAME], allowed, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
