"""What the server offers: which tools to whom, and resources, templates, completion and prompts."""

from mcp.types import (
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)

from memstrata.server.acting import telling
from memstrata.server.completing import complete
from memstrata.server.prompting import get_prompt, list_prompts
from memstrata.server.resources.listing import list_resources, list_templates
from memstrata.server.resources.reading import read_resource
from memstrata.server.sdk_private import serve_method
from memstrata.server.tool_server import ToolServer


def offer(mcp: ToolServer) -> None:
    """Make ``mcp`` list and read the memory of whoever asks, whatever toolsets are listed."""
    serve_method(mcp, "tools/list", PaginatedRequestParams, telling(mcp.list_permitted))
    serve_method(mcp, "resources/list", PaginatedRequestParams, telling(list_resources))
    serve_method(mcp, "resources/templates/list", PaginatedRequestParams, telling(list_templates))
    serve_method(mcp, "resources/read", ReadResourceRequestParams, telling(read_resource))
    serve_method(mcp, "completion/complete", CompleteRequestParams, telling(complete))
    serve_method(mcp, "prompts/list", PaginatedRequestParams, telling(list_prompts))
    serve_method(mcp, "prompts/get", GetPromptRequestParams, telling(get_prompt))
