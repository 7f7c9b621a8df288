"""An agent of the OpenAI Agents SDK with a memory: its input is the context, what it makes of it is stored.

In an environment with openai-agents, the second run knows what the first was told::

    python examples/openai_agents_sdk.py "I am Ana, and I never eat meat."
    python examples/openai_agents_sdk.py "Where shall we eat in Lisbon?"
"""

import argparse
import asyncio
import json
import os
import uuid
from typing import Any

from agents import Agent, Runner
from agents.mcp import MCPServerStdio, create_static_tool_filter

PROGRAM = os.environ.get("MEMORY_PROGRAM", ".venv/bin/layerlore")
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
INSTRUCTIONS = "You are a helpful assistant. The messages begin with what you remember of the user."
# Those of the memory's tools that the model calls itself. This program does the rest.
OFFERED = ["recall_memory", "remember", "update_working_memory"]


async def call(memory: MCPServerStdio, tool: str, **arguments: Any) -> Any:
    """The structured answer of one of the memory's tools."""
    result = await memory.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(f"{tool}: {result.content[0].text}")
    return json.loads(result.content[0].text)


async def answer(memory: MCPServerStdio, prompt: str) -> str:
    """One turn. The prompt is stored first, so that the context fits it, and notes that the model makes may rest on it."""
    await call(memory, "add_messages", messages=[{"role": "user", "content": prompt}])
    context = await call(memory, "get_context", format="responses")
    # Tools of your own go into `tools=[...]`.
    agent = Agent("assistant", model=MODEL, instructions=INSTRUCTIONS, mcp_servers=[memory])
    done = await Runner.run(agent, context["input"])
    await call(memory, "add_messages", messages=[item.to_input_item() for item in done.new_items])
    return str(done.final_output)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", help="what you say")
    parser.add_argument("--thread", default=f"agents-{uuid.uuid4().hex[:8]}", help="the conversation to go on with")
    given = parser.parse_args()
    memory = MCPServerStdio(
        # Launched with a thread, the server needs no thread_id in its calls, neither ours nor the model's.
        {"command": PROGRAM, "args": ["--thread", given.thread], "env": dict(os.environ)},
        client_session_timeout_seconds=30,
        tool_filter=create_static_tool_filter(allowed_tool_names=OFFERED),
    )
    async with memory:
        print(await answer(memory, given.prompt))


if __name__ == "__main__":
    asyncio.run(main())
