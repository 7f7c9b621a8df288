from agents import Agent, Runner
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> MCPServer:
    return MCPServerStreamableHttp(
        {"url": URL, "headers": {"Authorization": f"Bearer {KEY}"}},
        tool_meta_resolver=lambda call: {"layerlore/thread": thread},
        client_session_timeout_seconds=30,
    )


def on_stdio(thread: str) -> MCPServer:
    return MCPServerStdio({"command": PROGRAM, "args": ["--thread", thread]}, client_session_timeout_seconds=30)


async def converse(memory: MCPServer, prompt: str) -> str:
    async with memory:
        agent = Agent("assistant", model="gpt-5", mcp_servers=[memory])
        return (await Runner.run(agent, prompt)).final_output
