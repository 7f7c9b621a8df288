"""A LangGraph agent with a memory: its nodes hear, think, act and keep.

In an environment with langchain, langchain-mcp-adapters and langchain-openai, the second run knows what the first was told::

    python examples/langgraph_agent.py "I am Ana, and I never eat meat."
    python examples/langgraph_agent.py "Where shall we eat in Lisbon?"
"""

import argparse
import asyncio
import os
import uuid
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.messages import (
    AnyMessage,
    HumanMessage,
    SystemMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from mcp import ClientSession

PROGRAM = os.environ.get("MEMORY_PROGRAM", ".venv/bin/layerlore")
MODEL = os.environ.get("LANGGRAPH_MODEL", "openai:gpt-5-mini")
INSTRUCTIONS = "You are a helpful assistant. The messages begin with what you remember of the user."
# Those of the memory's tools that the model calls itself. The graph does the rest.
OFFERED = ("recall_memory", "remember", "update_working_memory")


class State(MessagesState):
    """``messages`` are those of this turn, ``context`` is all that the model should see before it answers."""

    context: list[AnyMessage]


async def call(memory: ClientSession, tool: str, **arguments: Any) -> Any:
    """The structured answer of one of the memory's tools."""
    result = await memory.call_tool(tool, arguments)
    if result.isError:
        raise RuntimeError(f"{tool}: {result.content[0].text}")
    return result.structuredContent


async def make_graph(memory: ClientSession) -> Any:
    """Tools of your own go into ``tools``."""
    tools = [tool for tool in await load_mcp_tools(memory) if tool.name in OFFERED]
    model = init_chat_model(MODEL).bind_tools(tools)

    async def hear(state: State) -> dict[str, Any]:
        """Stores what the user says, and gets the context with it: memories, notes, the newest messages."""
        await call(memory, "add_messages", messages=convert_to_openai_messages(state["messages"]))
        context = await call(memory, "get_context", format="openai")
        return {"context": convert_to_messages(context["messages"])}

    async def think(state: State) -> dict[str, Any]:
        done = state["messages"][1:]  # the context ends with the user's message
        return {"messages": [await model.ainvoke([SystemMessage(INSTRUCTIONS), *state["context"], *done])]}

    async def keep(state: State) -> dict[str, Any]:
        """Stores what the model said, its calls and their results."""
        await call(memory, "add_messages", messages=convert_to_openai_messages(state["messages"][1:]))
        return {}

    graph = StateGraph(State)
    graph.add_node("hear", hear)
    graph.add_node("think", think)
    graph.add_node("act", ToolNode(tools))
    graph.add_node("keep", keep)
    graph.add_edge(START, "hear")
    graph.add_edge("hear", "think")
    graph.add_conditional_edges("think", tools_condition, {"tools": "act", END: "keep"})
    graph.add_edge("act", "think")
    graph.add_edge("keep", END)
    return graph.compile()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", help="what you say")
    parser.add_argument("--thread", default=f"langgraph-{uuid.uuid4().hex[:8]}", help="the conversation to go on with")
    given = parser.parse_args()
    # Launched with a thread, the server needs no thread_id in its calls, neither ours nor the model's.
    server = {
        "transport": "stdio",
        "command": PROGRAM,
        "args": ["--thread", given.thread],
        "env": dict(os.environ),
    }
    async with MultiServerMCPClient({"memory": server}).session("memory") as memory:
        graph = await make_graph(memory)
        done = await graph.ainvoke({"messages": [HumanMessage(given.prompt)], "context": []})
        print(done["messages"][-1].text)


if __name__ == "__main__":
    asyncio.run(main())
