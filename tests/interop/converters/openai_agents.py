"""Reads a list of tools as JSON, and prints what the OpenAI Agents SDK makes of it: for each tool its schema, and
whether that is sent as strict."""

import json
import sys

from agents.mcp import MCPServerStdio, MCPUtil
from agents.strict_schema import ensure_strict_json_schema
from mcp.types import ListToolsResult


def main() -> None:
    server = MCPServerStdio({"command": "never started"})
    made = {}
    for tool in ListToolsResult.model_validate_json(sys.stdin.read()).tools:
        function = MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=True)
        plain = MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=False)
        made[tool.name] = {
            "strict": function.strict_json_schema,
            "sent": function.params_json_schema,
            # As its older versions, which close every object, send each tool.
            "closed": ensure_strict_json_schema(plain.params_json_schema),
        }
    print(json.dumps(made))


if __name__ == "__main__":
    main()
