from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> dict:
    headers = {"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread}
    return {"transport": "streamable_http", "url": URL, "headers": headers}


def on_stdio(thread: str) -> dict:
    return {"transport": "stdio", "command": PROGRAM, "args": ["--thread", thread]}


async def converse(memory: dict, prompt: str) -> str:
    async with MultiServerMCPClient({"memory": memory}).session("memory") as session:
        agent = create_agent("openai:gpt-5", await load_mcp_tools(session))
        answer = await agent.ainvoke({"messages": [{"role": "user", "content": prompt}]})
        return answer["messages"][-1].text
