from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpServerParams, McpWorkbench, StdioServerParams, StreamableHttpServerParams

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str) -> McpServerParams:
    return StreamableHttpServerParams(url=URL, headers={"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread})


def on_stdio(thread: str) -> McpServerParams:
    return StdioServerParams(command=PROGRAM, args=["--thread", thread], read_timeout_seconds=30)


async def converse(memory: McpServerParams, prompt: str) -> str:
    async with McpWorkbench(memory) as workbench:
        model = OpenAIChatCompletionClient(model="gpt-4o")
        agent = AssistantAgent("assistant", model, workbench=workbench, max_tool_iterations=10)
        return (await agent.run(task=prompt)).messages[-1].to_text()
