"""Reads a list of tools as JSON, and prints what ADK makes of it: the declarations of a model request, converted to
Gemini's schemas, and as they are."""

import json
import sys

from google.adk.features import FeatureName, override_feature_enabled
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.mcp_tool.mcp_session_manager import MCPSessionManager
from google.adk.tools.mcp_tool.mcp_tool import McpTool
from mcp import StdioServerParameters
from mcp.types import ListToolsResult


def main() -> None:
    sessions = MCPSessionManager(StdioServerParameters(command="never started"))
    listed = ListToolsResult.model_validate_json(sys.stdin.read()).tools
    made = {}
    for way, as_they_are in (("converted", False), ("whole", True)):
        override_feature_enabled(FeatureName.JSON_SCHEMA_FOR_FUNC_DECL, as_they_are)
        request = LlmRequest()
        request.append_tools([McpTool(mcp_tool=tool, mcp_session_manager=sessions) for tool in listed])
        made[way] = [
            declaration.model_dump(mode="json", by_alias=True, exclude_none=True)
            for tool in request.config.tools
            for declaration in tool.function_declarations
        ]
    print(json.dumps(made))


if __name__ == "__main__":
    main()
