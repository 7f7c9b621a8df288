"""An agent's loop with OpenAI's chat completions: ask for the context, call the model, run its tools, store each message.

The second run knows what the first was told::

    .venv/bin/python examples/openai_loop.py "I am Ana, and I never eat meat."
    .venv/bin/python examples/openai_loop.py "Where shall we eat in Lisbon?"
"""

import argparse
import asyncio
import json
import os
import uuid
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from openai import AsyncOpenAI

PROGRAM = os.environ.get("MEMORY_PROGRAM", ".venv/bin/layerlore")
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
INSTRUCTIONS = "You are a helpful assistant. The messages begin with what you remember of the user."
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
    """What the model may call, in the shape of OpenAI."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
        }
        for tool in (await memory.list_tools()).tools
        if tool.name in OFFERED
    ]


async def answer(memory: Client, prompt: str) -> str:
    """One turn. Each message is stored as soon as it is there, so that nothing is lost if this is killed."""
    model, tools = AsyncOpenAI(), await tools_of(memory)
    await call(memory, "add_messages", messages=[{"role": "user", "content": prompt}])
    for _ in range(MOST_CALLS):
        # All that the model should see: memories, notes on what is long ago, the newest messages with the prompt.
        context = await call(memory, "get_context", format="openai")
        messages = [{"role": "system", "content": INSTRUCTIONS}, *context["messages"]]
        completion = await model.chat.completions.create(model=MODEL, messages=messages, tools=tools)
        said = completion.choices[0].message
        await call(memory, "add_messages", messages=[said.model_dump(exclude_none=True)])
        if not said.tool_calls:
            return said.content or ""
        for wanted in said.tool_calls:
            result = await run_tool(memory, wanted.function.name, wanted.function.arguments)
            await call(
                memory,
                "add_messages",
                messages=[{"role": "tool", "tool_call_id": wanted.id, "content": result}],
            )
    raise RuntimeError(f"no answer after {MOST_CALLS} calls of the model")


async def run_tool(memory: Client, name: str, arguments: str) -> str:
    """What a tool answers, for the model to read: errors, too. Tools of your own go here."""
    if name not in OFFERED:
        return f"There is no tool {name}."
    try:
        result = await memory.call_tool(name, json.loads(arguments))
    except json.JSONDecodeError as error:
        return f"The arguments are no JSON: {error}"
    return "\n".join(block.text for block in result.content if block.type == "text")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", help="what you say")
    parser.add_argument("--thread", default=f"openai-{uuid.uuid4().hex[:8]}", help="the conversation to go on with")
    given = parser.parse_args()
    # Launched with a thread, the server needs no thread_id in its calls, neither ours nor the model's.
    server = StdioServerParameters(command=PROGRAM, args=["--thread", given.thread], env=dict(os.environ))
    async with Client(stdio_client(server)) as memory:
        print(await answer(memory, given.prompt))


if __name__ == "__main__":
    asyncio.run(main())
