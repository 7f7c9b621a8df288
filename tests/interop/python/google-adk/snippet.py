from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams, StreamableHTTPConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
from mcp import StdioServerParameters

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> McpToolset:
    headers = {"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread}
    return McpToolset(connection_params=StreamableHTTPConnectionParams(url=URL, headers=headers))


def on_stdio(thread: str) -> McpToolset:
    server = StdioServerParameters(command=PROGRAM, args=["--thread", thread])
    return McpToolset(connection_params=StdioConnectionParams(server_params=server, timeout=30))


async def converse(memory: McpToolset, prompt: str) -> str:
    agent = LlmAgent(name="assistant", model="gemini-2.5-flash", tools=[memory])
    async with InMemoryRunner(agent) as runner:
        events = await runner.run_debug(prompt, quiet=True)
    return events[-1].content.parts[0].text
