import json
from contextlib import AbstractAsyncContextManager

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> AbstractAsyncContextManager:
    http = httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread}, timeout=30)
    return streamable_http_client(URL, http_client=http)


def on_stdio(thread: str) -> AbstractAsyncContextManager:
    return stdio_client(StdioServerParameters(command=PROGRAM, args=["--thread", thread]))


async def converse(memory: AbstractAsyncContextManager, prompt: str) -> list[dict]:
    async with memory as (reading, writing, *_), ClientSession(reading, writing) as client:
        await client.initialize()
        await client.call_tool("add_messages", {"messages": [{"role": "user", "content": prompt}]})
        context = await client.call_tool("get_context", {"format": "openai"})
        return json.loads(context.content[0].text)["messages"]  # what to send to a model
