"""A Pydantic AI agent with a memory: its instructions end with the context, its turns are stored.

In an environment with pydantic-ai-slim[mcp,openai], the second run knows what the first was told::

    python examples/pydantic_ai_agent.py "I am Ana, and I never eat meat."
    python examples/pydantic_ai_agent.py "Where shall we eat in Lisbon?"
"""

import argparse
import asyncio
import os
import uuid
from collections.abc import Iterator
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart, ToolReturnPart

PROGRAM = os.environ.get("MEMORY_PROGRAM", ".venv/bin/layerlore")
MODEL = os.environ.get("PYDANTIC_AI_MODEL", "openai:gpt-5-mini")
INSTRUCTIONS = "You are a helpful assistant. What follows in tags is what you remember."
# Those of the memory's tools that the model calls itself. This program does the rest.
OFFERED = ("recall_memory", "remember", "update_working_memory")


def make_agent(memory: MCPToolset) -> Agent:
    """Tools of your own go into ``tools=[...]``."""
    offered = memory.filtered(lambda _, tool: tool.name in OFFERED)
    agent = Agent(MODEL, instructions=INSTRUCTIONS, toolsets=[offered])

    @agent.instructions
    async def context() -> str:
        """All that the model should see beside this turn: memories, notes, the newest messages."""
        return (await memory.client.call_tool("get_context", {})).content[0].text

    return agent


def kept(messages: list[ModelMessage]) -> Iterator[dict[str, Any]]:
    """Messages as the memory takes them."""
    for message in messages:
        by_role: dict[str, list[dict[str, Any]]] = {}
        for part in message.parts:
            match part:
                case TextPart(content=text):
                    by_role.setdefault("assistant", []).append({"type": "text", "text": text})
                case ToolCallPart(tool_name=name, tool_call_id=id_):
                    called = {"type": "tool_call", "id": id_, "name": name, "arguments": part.args_as_dict()}
                    by_role.setdefault("assistant", []).append(called)
                case ToolReturnPart(tool_name=name, tool_call_id=id_):
                    result = {"type": "tool_result", "tool_call_id": id_, "name": name}
                    by_role.setdefault("tool", []).append({**result, "result": part.model_response_str()})
        yield from ({"role": role, "parts": parts} for role, parts in by_role.items())


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", help="what you say")
    parser.add_argument("--thread", default=f"pydantic-{uuid.uuid4().hex[:8]}", help="the conversation to go on with")
    given = parser.parse_args()
    # Launched with a thread, the server needs no thread_id in its calls, neither ours nor the model's.
    server = StdioTransport(PROGRAM, ["--thread", given.thread], env=dict(os.environ))
    memory = MCPToolset(server, init_timeout=30)
    agent = make_agent(memory)
    async with agent:
        # Stored first, so that the context fits it, and notes that the model makes may rest on it.
        await memory.client.call_tool("add_messages", {"messages": [{"role": "user", "content": given.prompt}]})
        done = await agent.run(given.prompt)
        await memory.client.call_tool("add_messages", {"messages": list(kept(done.new_messages()[1:]))})
        print(done.output)


if __name__ == "__main__":
    asyncio.run(main())
