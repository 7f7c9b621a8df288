"""An agent of the OpenAI Agents SDK with a memory: its instructions end with the context, its turns are stored.

In an environment with openai-agents, the second run knows what the first was told::

    python examples/openai_agents_sdk.py "I am Ana, and I never eat meat."
    python examples/openai_agents_sdk.py "Where shall we eat in Lisbon?"
"""

import argparse
import asyncio
import os
import uuid

from agents import Agent, RunContextWrapper, Runner
from agents.mcp import MCPServerStdio, create_static_tool_filter

PROGRAM = os.environ.get("MEMORY_PROGRAM", ".venv/bin/layerlore")
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
INSTRUCTIONS = "You are a helpful assistant. What follows in tags is what you remember."
# Those of the memory's tools that the model calls itself. This program does the rest.
OFFERED = ["recall_memory", "remember", "update_working_memory"]


def make_agent(memory: MCPServerStdio) -> Agent:
    """Tools of your own go into ``tools=[...]``."""

    async def instructions(_: RunContextWrapper, __: Agent) -> str:
        """All that the model should see beside this turn: memories, notes, the newest messages."""
        context = await memory.call_tool("get_context", {})
        return f"{INSTRUCTIONS}\n\n{context.content[0].text}"

    return Agent("assistant", model=MODEL, instructions=instructions, mcp_servers=[memory])


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
        # Stored first, so that the context fits it, and notes that the model makes may rest on it.
        await memory.call_tool("add_messages", {"messages": [{"role": "user", "content": given.prompt}]})
        done = await Runner.run(make_agent(memory), given.prompt)
        await memory.call_tool("add_messages", {"messages": [{"role": "assistant", "content": done.final_output}]})
        print(done.final_output)


if __name__ == "__main__":
    asyncio.run(main())
