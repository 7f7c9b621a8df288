claude mcp add --scope user --transport stdio memory -- /path/to/layerlore/.venv/bin/layerlore
