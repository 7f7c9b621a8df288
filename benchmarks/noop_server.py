"""The yardstick: a server of the same SDK with one tool that does nothing, run the way the SDK runs it.

``python noop_server.py`` speaks stdio, ``python noop_server.py PORT`` Streamable HTTP on loopback.
"""

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("noop", log_level="ERROR")


@server.tool()
def noop(text: str) -> str:
    """Do nothing."""
    return "ok"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
