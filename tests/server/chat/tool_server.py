"""Somebody else's MCP server: one tool that reads, one that writes a line into the file of LETTERS, and one whose calls
wait for each other."""

import asyncio
import os
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("post")
meeting: list[asyncio.Event] = []
counts: list[int] = []


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def look(place: str) -> str:
    """Look into a place. Tells what it finds of the keys of whoever launched this server."""
    return f"{os.environ.get('OPENAI_API_KEY', 'nothing')} in the {place}"


@server.tool()
async def send(to: str) -> str:
    """Send a letter."""
    with Path(os.environ["LETTERS"]).open("a", encoding="utf-8") as letters:
        letters.write(f"{to}\n")
    return f"sent to {to}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def meet() -> str:
    """Comes back when two are there. Tells how many were at most."""
    meeting.append(asyncio.Event())
    counts.append(len(meeting))
    if len(meeting) == 2:
        for each in meeting:
            each.set()
    mine = meeting[-1]
    await mine.wait()
    meeting.remove(mine)
    return f"at most {max(counts)}"


if __name__ == "__main__":
    server.run()
