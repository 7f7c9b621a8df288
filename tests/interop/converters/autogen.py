"""Reads a list of tools as JSON, and prints the names and schemas that AutoGen makes of them for a model."""

import json
import sys

from autogen_ext.tools.mcp import StdioMcpToolAdapter, StdioServerParams
from mcp.types import ListToolsResult

if __name__ == "__main__":
    server = StdioServerParams(command="never started")
    tools = [StdioMcpToolAdapter(server, tool) for tool in ListToolsResult.model_validate_json(sys.stdin.read()).tools]
    print(json.dumps({tool.name: tool.schema["parameters"] for tool in tools}))
