claude mcp add --scope user --transport stdio layerlore -- /path/to/layerlore/.venv/bin/layerlore
