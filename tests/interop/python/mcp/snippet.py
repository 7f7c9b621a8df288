import json

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> Client:
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread}, timeout=30)
    return Client(streamable_http_client(URL, http_client=http))


def on_stdio(thread: str) -> Client:
    return Client(stdio_client(StdioServerParameters(command=PROGRAM, args=["--thread", thread])))


async def converse(memory: Client, prompt: str) -> list[dict]:
    async with memory as client:
        await client.call_tool("add_messages", {"messages": [{"role": "user", "content": prompt}]})
        context = await client.call_tool("get_context", {"format": "openai"})
        return json.loads(context.content[0].text)["messages"]  # what to send to a model
