import json

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> Client:
    return Client(StreamableHttpTransport(URL, headers={"Layerlore-Thread": thread}, auth=KEY))


def on_stdio(thread: str) -> Client:
    return Client(StdioTransport(PROGRAM, ["--thread", thread]))


async def converse(memory: Client, prompt: str) -> list[dict]:
    async with memory as client:
        await client.call_tool("add_messages", {"messages": [{"role": "user", "content": prompt}]})
        context = await client.call_tool("get_context", {"format": "openai"})
        return json.loads(context.content[0].text)["messages"]  # what to send to a model
