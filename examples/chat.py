"""A chat with a memory: one loop of get_context, a model call and add_messages, over the official MCP client."""

import argparse
import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

INSTRUCTIONS = "You are a helpful assistant. What you remember of the user is in the messages."
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
BASE_URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")


async def ask_model(messages: list[dict[str, Any]]) -> str:
    """The model's answer. Without a key: the messages that it would have been sent."""
    key = os.environ.get("OPENAI_API_KEY")
    if key is None:
        return "\n".join(f"  {message['role']}: {message['content']}" for message in messages)
    async with httpx2.AsyncClient(timeout=60, headers={"Authorization": f"Bearer {key}"}) as http:
        response = await http.post(f"{BASE_URL}/chat/completions", json={"model": MODEL, "messages": messages})
        response.raise_for_status()
        answer: str = response.json()["choices"][0]["message"]["content"]
        return answer


async def chat(memory: Client, thread: str) -> None:
    """Ask, answer and store, a turn for each line of standard input."""
    while line := await asyncio.to_thread(_read_line):
        question = {"role": "user", "content": line}
        stored = await memory.call_tool("add_messages", {"thread_id": thread, "messages": [question]})
        if stored.is_error:
            raise SystemExit(f"add_messages failed: {stored.content}")
        # The context holds the question too: it is the newest message of the thread.
        context = await memory.call_tool("get_context", {"thread_id": thread, "format": "openai"})
        assert context.structured_content is not None, context.content
        messages = context.structured_content["messages"]
        answer = await ask_model([{"role": "system", "content": INSTRUCTIONS}, *messages])
        print(answer, flush=True)
        if "OPENAI_API_KEY" in os.environ:
            reply = {"role": "assistant", "content": answer}
            await memory.call_tool("add_messages", {"thread_id": thread, "messages": [reply]})


def _read_line() -> str:
    """The next line that is not empty; an empty string at the end of the input."""
    while line := sys.stdin.readline():
        if line.strip():
            return line.strip()
    return ""


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--thread", default=f"chat-{datetime.now(UTC):%Y%m%d-%H%M%S}", help="the conversation to go on with"
    )
    parser.add_argument(
        "--data-dir", type=Path, help="where the memory is kept (the default is the one that hosts use)"
    )
    given = parser.parse_args()
    arguments = ["-m", "layerlore.server"]
    if given.data_dir is not None:
        arguments += ["--data-dir", str(given.data_dir)]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    async with Client(stdio_client(server)) as memory:
        await chat(memory, given.thread)


if __name__ == "__main__":
    asyncio.run(main())
