"""The MCP server: the SDK's, with calls checked, run and answered in our own way."""

import contextlib
import logging
from collections.abc import Sequence
from typing import Any

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

from layerlore.server.access.caller import (
    Default,
    Lifespan,
    RequestContext,
    admit,
    caller_of,
    default_of,
    is_for_page,
    principal_of,
    settings_of,
)
from layerlore.server.limits.room import TooMuch, refusal_result
from layerlore.server.process.sdk_private import expect_no_argument_headers, trace_if_recorded
from layerlore.server.resources.requests import make_result
from layerlore.server.tools.arguments import check_arguments, quote_name, suggest_name
from layerlore.server.tools.declaration import Declaration
from layerlore.server.tools.explorer import show_to_page
from layerlore.server.tools.instructions import name_current
from layerlore.server.tools.toolsets import ALL_TOOLS, choose_for_pages, choose_tools, list_writers
from layerlore.storage.core.errors import LayerloreError

log = logging.getLogger(__name__)


class ToolServer(MCPServer[Lifespan]):
    """An MCPServer whose tools are declarations; the process behind it runs their functions.

    A call with an argument that the tool does not have is refused. Errors are ToolErrors that a model can act on;
    what is raised unexpectedly stays in the log. ``for_pages``: the tools that only pages have.
    """

    def __init__(
        self, name: str, declarations: Sequence[Declaration], for_pages: Sequence[Declaration] = (), **options: Any
    ) -> None:
        self._listed = [each.name for each in declarations]
        self._for_pages = [each.name for each in for_pages if each.name not in self._listed]
        self._declarations = {each.name: each for each in (*declarations, *for_pages)}
        self._declared: dict[str, Tool] = {name: each.tool for name, each in self._declarations.items()}
        super().__init__(name, tools=list(self._declared.values()), **options)
        expect_no_argument_headers(self)
        trace_if_recorded(self)

    async def list_permitted(self, ctx: RequestContext, _: PaginatedRequestParams) -> ListToolsResult:
        """The tools that the caller has the right to."""
        rights = principal_of(ctx).rights
        by_name = {tool.name: tool for tool in await self.list_tools()}
        listed, beside = self._chosen(ctx)
        offered = [self._declarations[name] for name in (*listed, *beside)]
        hidden = frozenset(beside)
        shown = [
            show_to_page(tool) if tool.name in hidden else tool
            for tool in (each.show(by_name[each.name]) for each in offered if each.open_to(rights))
        ]
        return ListToolsResult(tools=_described_for(shown, default_of(ctx)))

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Lifespan, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Check, run and answer one call. Raises ToolError for every failure that is the caller's to mend, and MCPError
        for a tool that is not there, which in both eras is a protocol error."""
        assert context is not None
        process = context.request_context.lifespan_context
        offered = self._offered(context.request_context)
        if name not in offered:
            self._refuse_closed(context.request_context, name)
            near = suggest_name(name, offered)
            raise MCPError(INVALID_PARAMS, process.mask(f"there is no tool {quote_name(name)}{near}"))
        try:
            return make_result(await self._act(process, name, arguments, context), process.settings.limits.answer_bytes)
        except TooMuch as refused:
            return refusal_result(refused)
        except LayerloreError as error:
            raise ToolError(process.mask(str(error))) from error
        except ToolError as error:
            raise ToolError(process.mask(str(error))) from error.__cause__
        except Exception as error:
            # The SDK would answer with the exception's own text, which may hold SQL or what others stored.
            log.exception("%s failed unexpectedly", name)
            raise ToolError(f"{name} failed unexpectedly; the server's log says why") from error

    def _offered(self, ctx: RequestContext) -> list[str]:
        """The names of the tools that the agent or the page of a request has, whatever its rights."""
        listed, beside = self._chosen(ctx)
        return [*listed, *beside]

    def _chosen(self, ctx: RequestContext) -> tuple[list[str], list[str]]:
        """The tools that models are listed, and those that the page has beside them, if one asks."""
        page = is_for_page(ctx)
        if not ctx.lifespan_context.settings.agents:
            return self._listed, self._for_pages if page else []
        settings = settings_of(ctx)
        if page:
            beside = choose_for_pages(settings)
        else:
            beside = []
        return [each.name for each in choose_tools(settings)], [each.name for each in beside]

    def _refuse_closed(self, ctx: RequestContext, name: str) -> None:
        """Raises ToolError for a tool that the mode of the agent's memory takes away."""
        settings = settings_of(ctx)
        if settings.memory == "on" or name not in ALL_TOOLS:
            return
        if settings.memory == "off" or name in list_writers():
            agent = ""
            with contextlib.suppress(LayerloreError):  # a call that names no agent
                agent = caller_of(ctx).scope.agent_id
            raise ToolError(f"{name} cannot be called: {settings.describe_closed(agent)}")

    async def _act(
        self, process: Lifespan, name: str, arguments: dict[str, Any], context: Context[Lifespan, Any]
    ) -> Any:
        declaration = self._declarations[name]
        needs = declaration.needs(arguments)
        caller = await admit(context.request_context, needs, name, of_tenant=declaration.of_tenant)
        settings = process.settings.for_agent(caller.scope.agent_id)
        if settings.memory == "read-only" and declaration.changes(arguments):
            raise ToolError(f"{name} cannot be called so: {settings.describe_closed(caller.scope.agent_id)}")
        values, given = check_arguments(self._declared[name], arguments)
        answer = await process.act(name, declaration.function, caller, values, given)
        return declaration.hide_stored(answer, caller.principal.rights)


def _described_for(tools: Sequence[ListedTool], default: Default) -> list[ListedTool]:
    """The tools, their texts saying what thread_id means on the connection."""

    def described(tool: ListedTool) -> ListedTool:
        properties = tool.input_schema.get("properties", {})
        schema = properties.get("thread_id", {})
        if "description" not in schema:
            return tool
        named = {**schema, "description": name_current(schema["description"], default)}
        takes = {**tool.input_schema, "properties": {**properties, "thread_id": named}}
        return tool.model_copy(update={"input_schema": takes})

    return [described(tool) for tool in tools]
