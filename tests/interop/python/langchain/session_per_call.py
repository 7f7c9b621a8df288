"""What many write: tools that open a session for each call."""

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient

URL = KEY = ""


def over_http(thread: str) -> dict:
    headers = {"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread}
    return {"transport": "streamable_http", "url": URL, "headers": headers}


async def converse(memory: dict, prompt: str) -> str:
    agent = create_agent("openai:gpt-5", await MultiServerMCPClient({"memory": memory}).get_tools())
    answer = await agent.ainvoke({"messages": [{"role": "user", "content": prompt}]})
    return answer["messages"][-1].text
