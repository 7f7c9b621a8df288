from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.tools.mcp import MCPTools
from mcp import StdioServerParameters

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> MCPTools:
    headers = {"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread}
    return MCPTools(url=URL, transport="streamable-http", headers=headers)


def on_stdio(thread: str) -> MCPTools:
    server = StdioServerParameters(command=PROGRAM, args=["--thread", thread])
    return MCPTools(server_params=server, timeout_seconds=30)


async def converse(memory: MCPTools, prompt: str) -> str:
    async with memory:
        agent = Agent(model=OpenAIChat("gpt-5"), tools=[memory])
        return (await agent.arun(prompt)).content
