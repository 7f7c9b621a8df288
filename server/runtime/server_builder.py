"""Builds the MCP server that the settings describe, for any transport."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension
from mcp.server.mcpserver import MCPServer
from mcp.types import (
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)

from layerlore.server.access.caller import Lifespan, RequestContext, client_of, default_of, principal_of, settings_of
from layerlore.server.access.protocol_errors import convert_errors
from layerlore.server.process.sdk_private import add_middleware, serve_method
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.process.version import VERSION
from layerlore.server.prompts.completion import complete
from layerlore.server.prompts.prompts import get_prompt, list_prompts
from layerlore.server.resources.requests import list_resources, list_templates, read_resource
from layerlore.server.runtime.process import Process
from layerlore.server.runtime.tool_server import ToolServer
from layerlore.server.settings.settings import Settings
from layerlore.server.subscriptions.notifications import RULES, NotificationHub
from layerlore.server.tools.instructions import OFF, write_instructions
from layerlore.server.tools.toolsets import choose_declared, choose_declared_for_pages, list_callable

# The lists change with the server's version and the caller's rights only.
_HOUR_MS = 3_600_000
# How a client of each era asks what the server is.
_ASKING = ("initialize", "server/discover")
CACHE_HINTS: dict[Any, CacheHint] = {
    "tools/list": CacheHint(ttl_ms=_HOUR_MS, scope="private"),
    "prompts/list": CacheHint(ttl_ms=_HOUR_MS, scope="private"),
}


class Pages(Extension):
    """Tells clients that there is a page to show, with its tools."""

    identifier = EXTENSION_ID

    def settings(self) -> dict[str, list[str]]:
        return {"mimeTypes": [APP_MIME_TYPE]}


def build_server(settings: Settings, *, stop: StopRequest | None = None, **options: Any) -> ToolServer:
    """A server of either era, one lifespan for all its connections. ``stop`` is requested when it cannot start."""
    hub = NotificationHub(RULES)

    @contextlib.asynccontextmanager
    async def lifespan(_: MCPServer[Lifespan]) -> AsyncIterator[Lifespan]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hub.run)
            try:
                async with Process(settings, hub, stop).running() as process:
                    yield process
            finally:
                tasks.cancel_scope.cancel()

    return assemble_server(settings, hub, lifespan=lifespan, **options)


def assemble_server(settings: Settings, hub: NotificationHub, **options: Any) -> ToolServer:
    """A server with the tools that the settings choose and the news of the hub; without a lifespan, the code that
    serves a connection gives its requests the value of one."""
    server = ToolServer(
        "layerlore",
        choose_declared(settings),
        choose_declared_for_pages(settings),
        title="Memory",
        version=VERSION,
        description="Long-term memory for agents",
        subscriptions=hub.bus,
        extensions=[Pages()],
        cache_hints=CACHE_HINTS,
        log_level="WARNING",
        **options,
    )
    hub.install(server)
    _serve_methods(server)
    return server


def _serve_methods(mcp: ToolServer) -> None:
    """Make ``mcp`` answer for the memory of its caller: tools, resources and their templates, completion and prompts."""
    serve_method(mcp, "tools/list", PaginatedRequestParams, convert_errors(mcp.list_permitted))
    serve_method(mcp, "resources/list", PaginatedRequestParams, convert_errors(list_resources))
    serve_method(mcp, "resources/templates/list", PaginatedRequestParams, convert_errors(list_templates))
    serve_method(mcp, "resources/read", ReadResourceRequestParams, convert_errors(read_resource))
    serve_method(mcp, "completion/complete", CompleteRequestParams, convert_errors(complete))
    serve_method(mcp, "prompts/list", PaginatedRequestParams, convert_errors(list_prompts))
    serve_method(mcp, "prompts/get", GetPromptRequestParams, convert_errors(get_prompt))
    add_middleware(mcp, _instruct)


async def _instruct(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """Answer who asks what the server is with instructions, too: for their rights, on their connection."""
    result = await call_next(ctx)
    if ctx.method not in _ASKING or not isinstance(result, dict):
        return result
    settings = settings_of(ctx)
    if settings.memory == "off":
        return {**result, "instructions": OFF}
    tools = list_callable(settings, principal_of(ctx).rights)
    captured = await ctx.lifespan_context.is_captured(_name_client(ctx))
    return {**result, "instructions": write_instructions(tools, default_of(ctx), captured=captured)}


def _name_client(ctx: RequestContext) -> str:
    """The client's own name. During ``initialize`` its session does not know that yet."""
    given = (ctx.params or {}).get("clientInfo")
    if isinstance(given, dict):
        return str(given.get("name", ""))
    return client_of(ctx)
