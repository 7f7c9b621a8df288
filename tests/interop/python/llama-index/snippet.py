from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> BasicMCPClient:
    return BasicMCPClient(URL, headers={"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread})


def on_stdio(thread: str) -> BasicMCPClient:
    return BasicMCPClient(PROGRAM, args=["--thread", thread])


async def converse(memory: BasicMCPClient, prompt: str) -> str:
    tools = await McpToolSpec(memory).to_tool_list_async()
    agent = FunctionAgent(tools=tools, llm=OpenAI("gpt-4o"))
    return str(await agent.run(prompt))
