"""An agent's loop with Anthropic's messages: ask for the context, call the model, run its tools, store each message.

The second run knows what the first was told::

    .venv/bin/python examples/anthropic_loop.py "I am Ana, and I never eat meat."
    .venv/bin/python examples/anthropic_loop.py "Where shall we eat in Lisbon?"
"""

import argparse
import asyncio
import os
import uuid
from typing import Any

from anthropic import AsyncAnthropic
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

PROGRAM = os.environ.get("MEMORY_PROGRAM", ".venv/bin/layerlore")
MODEL = os.environ.get("ANTHROPIC_MODEL", "claude-haiku-4-5")
INSTRUCTIONS = "You are a helpful assistant. What you remember of the user stands in tags such as <memory>."
# Those of the memory's tools that the model calls itself. This program does the rest.
OFFERED = ("recall_memory", "remember", "update_working_memory")
MOST_CALLS = 20


async def call(memory: Client, tool: str, **arguments: Any) -> Any:
    """The structured answer of one of the memory's tools."""
    result = await memory.call_tool(tool, arguments)
    if result.is_error:
        raise RuntimeError(f"{tool}: {result.content[0].text}")
    return result.structured_content


async def tools_of(memory: Client) -> list[dict[str, Any]]:
    """What the model may call, in the shape of Anthropic."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in (await memory.list_tools()).tools
        if tool.name in OFFERED
    ]


async def answer(memory: Client, prompt: str) -> str:
    """One turn. Each message is stored as soon as it is there, so that nothing is lost if this is killed."""
    model, tools = AsyncAnthropic(), await tools_of(memory)
    await call(memory, "add_messages", messages=[{"role": "user", "content": prompt}])
    for _ in range(MOST_CALLS):
        # All that the model should see, with the places where Anthropic's cache may cut marked in it.
        context = await call(memory, "get_context", format="anthropic")
        said = await model.messages.create(
            model=MODEL,
            max_tokens=4096,
            system=[{"type": "text", "text": INSTRUCTIONS}, *context.get("system", [])],
            messages=context["messages"],
            tools=tools,
        )
        blocks = [block.model_dump(exclude_none=True) for block in said.content]
        await call(memory, "add_messages", messages=[{"role": "assistant", "content": blocks}])
        if said.stop_reason != "tool_use":
            return "".join(block.text for block in said.content if block.type == "text")
        results = [
            {
                "type": "tool_result",
                "tool_use_id": wanted.id,
                "content": await run_tool(memory, wanted.name, wanted.input),
            }
            for wanted in said.content
            if wanted.type == "tool_use"
        ]
        await call(memory, "add_messages", messages=[{"role": "user", "content": results}])
    raise RuntimeError(f"no answer after {MOST_CALLS} calls of the model")


async def run_tool(memory: Client, name: str, arguments: dict[str, Any]) -> str:
    """What a tool answers, for the model to read: errors, too. Tools of your own go here."""
    if name not in OFFERED:
        return f"There is no tool {name}."
    result = await memory.call_tool(name, arguments)
    return "\n".join(block.text for block in result.content if block.type == "text")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", help="what you say")
    parser.add_argument("--thread", default=f"anthropic-{uuid.uuid4().hex[:8]}", help="the conversation to go on with")
    given = parser.parse_args()
    # Launched with a thread, the server needs no thread_id in its calls, neither ours nor the model's.
    server = StdioServerParameters(command=PROGRAM, args=["--thread", given.thread], env=dict(os.environ))
    async with Client(stdio_client(server)) as memory:
        print(await answer(memory, given.prompt))


if __name__ == "__main__":
    asyncio.run(main())
