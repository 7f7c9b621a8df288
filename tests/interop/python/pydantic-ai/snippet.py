from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> MCPToolset:
    return MCPToolset(URL, headers={"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread})


def on_stdio(thread: str) -> MCPToolset:
    return MCPToolset(StdioTransport(PROGRAM, ["--thread", thread]), init_timeout=30)


async def converse(memory: MCPToolset, prompt: str) -> str:
    agent = Agent("openai:gpt-5", toolsets=[memory])
    async with agent:
        return (await agent.run(prompt)).output
