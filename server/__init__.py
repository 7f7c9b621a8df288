"""The MCP surface and the process: command line, settings, transports, who is calling, tools."""
