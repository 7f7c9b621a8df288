"""The reference agent: a client of the memory that speaks MCP and nothing else. Copy this folder to begin your own."""
