"""``layerlore chat``: the agent in a terminal."""

import asyncio
import contextlib
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from mcp import Client, MCPError, StdioServerParameters

from layerlore.server.chat.memory import Memory, MemoryRefused
from layerlore.server.chat.model import ChatModel, LitellmModel, ScriptedModel, load_litellm
from layerlore.server.chat.session import ChatSession, new_thread
from layerlore.server.chat.terminal import Keyboard, PipeKeyboard, Screen, TerminalKeyboard, follow
from layerlore.server.chat.tools import tools_of_hosts

NO_MODEL = """\
No model is set. Name one by its litellm name, with its provider's key in the environment:
  layerlore chat --model openai/gpt-5-mini           OPENAI_API_KEY
  layerlore chat --model anthropic/claude-sonnet-5   ANTHROPIC_API_KEY
  layerlore chat --model ollama_chat/llama3.2        a local Ollama, no key
  layerlore chat --model openai/NAME --api-base URL  any server with OpenAI's interface
or once for all in LAYERLORE_LLM_MODEL, which does the background work, too.
To look around without one: layerlore chat --model scripted"""


@dataclass(frozen=True)
class ChatLaunch:
    """``server``: the command that launches the memory's server over stdio. ``thread_id``: empty for a new conversation.
    ``servers``: a host's configuration file with further MCP servers. ``message``: said first; the chat ends with its
    answer if no more comes."""

    server: list[str]
    model: str = ""
    api_base: str = ""
    api_key: str = ""
    servers: Path | None = None
    thread_id: str = ""
    message: str = ""
    follows: bool = False
    max_tokens: int = 8_000


def chat(launch: ChatLaunch) -> int:
    """Chat until the input ends. Returns the exit code: 1 if the last turn failed, or the reader of the answers left
    early."""
    screen = Screen()
    if not launch.model and not launch.follows:
        sys.stderr.write(NO_MODEL + "\n")
        # Without a terminal a question would wait forever, or eat the first message of a pipe.
        if not sys.stdin.isatty() or input("Look around now? [y/n] ").strip().lower()[:1] != "y":
            return 2
        launch = replace(launch, model=ScriptedModel.name)
    try:
        failed = asyncio.run(_chat(launch, screen))
    except KeyboardInterrupt:
        return 0
    except (ValueError, OSError, MemoryRefused, MCPError, BaseExceptionGroup) as error:
        sys.stderr.write(f"layerlore: {_one_line(error)}\n")
        return 1
    return int(failed or screen.is_closed)


def _one_line(error: BaseException) -> str:
    """The message of the first error in a group of tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split()) or type(error).__name__


async def _chat(launch: ChatLaunch, screen: Screen) -> bool:
    """Whether the last turn failed."""
    command, *arguments = launch.server
    # The SDK passes on few variables by default, and the server needs the model's and the database's.
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(server))
        if launch.follows:
            # Following only reads, so no model and no other servers are opened.
            await follow(Memory(client, launch.thread_id or await _newest_thread(client)), screen)
            return False
        if launch.servers:
            tools = await tools_of_hosts(stack, launch.servers)
        else:
            tools = []
        model = _open_model(launch)
        # litellm's connections belong to this event loop and must close before it does.
        stack.push_async_callback(model.close)
        session = ChatSession(client, model, tools, screen, max_tokens=launch.max_tokens)
        await session.open(launch.thread_id or new_thread())
        await session.show_last()
        await session.converse(await _keyboard(session), launch.message)
        return session.failed


def _open_model(launch: ChatLaunch) -> ChatModel:
    if launch.model == ScriptedModel.name:
        return ScriptedModel()
    # While the person reads and types.
    asyncio.get_running_loop().run_in_executor(None, load_litellm)
    return LitellmModel(launch.model, api_base=launch.api_base, api_key=launch.api_key)


async def _keyboard(session: ChatSession) -> Keyboard:
    if not sys.stdin.isatty():
        return PipeKeyboard()
    return TerminalKeyboard(list(session.commands), session.status, await session.remembered_lines())


async def _newest_thread(client: Client) -> str:
    threads = (await Memory(client, "").call("list_threads", limit=1))["threads"]
    if not threads:
        raise ValueError("there is no conversation to follow yet: name one with --thread")
    newest: str = threads[0]["thread_id"]
    return newest
