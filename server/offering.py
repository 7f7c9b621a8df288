"""What the server offers: which tools to whom, and resources, templates, completion and prompts."""

from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.types import (
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)

from layerlore.server.acting import telling
from layerlore.server.caller import default_of, principal_of
from layerlore.server.completing import complete
from layerlore.server.instructions import OFF, instructions
from layerlore.server.process import Process
from layerlore.server.prompting import get_prompt, list_prompts
from layerlore.server.resources.listing import list_resources, list_templates
from layerlore.server.resources.reading import read_resource
from layerlore.server.sdk_private import add_middleware, serve_method
from layerlore.server.tool_server import ToolServer
from layerlore.server.toolsets import callable_tools

# How a client of each era asks what the server is.
_ASKING = ("initialize", "server/discover")


def offer(mcp: ToolServer) -> None:
    """Make ``mcp`` list and read the memory of whoever asks, whatever toolsets are listed."""
    serve_method(mcp, "tools/list", PaginatedRequestParams, telling(mcp.list_permitted))
    serve_method(mcp, "resources/list", PaginatedRequestParams, telling(list_resources))
    serve_method(mcp, "resources/templates/list", PaginatedRequestParams, telling(list_templates))
    serve_method(mcp, "resources/read", ReadResourceRequestParams, telling(read_resource))
    serve_method(mcp, "completion/complete", CompleteRequestParams, telling(complete))
    serve_method(mcp, "prompts/list", PaginatedRequestParams, telling(list_prompts))
    serve_method(mcp, "prompts/get", GetPromptRequestParams, telling(get_prompt))
    add_middleware(mcp, instruct)


async def instruct(ctx: ServerRequestContext[Process, Any], call_next: CallNext) -> HandlerResult:
    """Tell who asks what the server is how to use it: for their rights, on their connection."""
    result = await call_next(ctx)
    if ctx.method not in _ASKING or not isinstance(result, dict):
        return result
    settings = ctx.lifespan_context.settings
    if settings.memory == "off":
        return {**result, "instructions": OFF}
    tools = callable_tools(settings, principal_of(ctx).rights)
    return {**result, "instructions": instructions(tools, default_of(ctx))}
