"""Tools that AutoGen makes models of its own of, from their schemas, and that open a session for each call."""

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import StreamableHttpServerParams, mcp_server_tools

URL = KEY = ""


def over_http(thread: str) -> StreamableHttpServerParams:
    return StreamableHttpServerParams(url=URL, headers={"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread})


async def converse(memory: StreamableHttpServerParams, prompt: str) -> str:
    model = OpenAIChatCompletionClient(model="gpt-4o")
    agent = AssistantAgent("assistant", model, tools=await mcp_server_tools(memory), max_tool_iterations=10)
    return (await agent.run(task=prompt)).messages[-1].to_text()
