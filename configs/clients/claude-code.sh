claude mcp add --scope user --transport stdio memory -- uvx memstrata
