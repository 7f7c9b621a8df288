from mcp import StdioServerParameters
from smolagents import MCPClient, OpenAIModel, ToolCallingAgent

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> dict:
    headers = {"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread}
    return {"transport": "streamable-http", "url": URL, "headers": headers}


def on_stdio(thread: str) -> StdioServerParameters:
    return StdioServerParameters(command=PROGRAM, args=["--thread", thread])


def converse(memory: dict | StdioServerParameters, prompt: str) -> str:
    with MCPClient(memory, structured_output=False) as tools:
        return ToolCallingAgent(tools, OpenAIModel("gpt-5")).run(prompt)
