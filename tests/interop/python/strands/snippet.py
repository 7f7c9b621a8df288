from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> MCPClient:
    return MCPClient(url=URL, headers={"Authorization": f"Bearer {KEY}"}, meta={"layerlore/thread": thread})


def on_stdio(thread: str) -> MCPClient:
    server = StdioServerParameters(command=PROGRAM)
    return MCPClient(lambda: stdio_client(server), meta={"layerlore/thread": thread})


def converse(memory: MCPClient, prompt: str) -> str:
    with memory:
        agent = Agent(OpenAIModel(model_id="gpt-5"), tools=memory.list_tools_sync())
        return str(agent(prompt))
