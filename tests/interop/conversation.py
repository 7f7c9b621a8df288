"""A conversation that an agent has with our server, whatever framework it is built with, and what is left of it."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from scripted_model import Call, ScriptedModel

from .python_environments import FOLDER

PROGRAM = str(Path(sys.executable).with_name("layerlore"))
RUNNER = Path(__file__).with_name("run_snippet.py")
PATIENCE = 180  # seconds for what takes a few on an idle machine

SAID = [
    {"role": "user", "content": "I am Ana, and I never eat meat."},
    {"role": "assistant", "content": "I will remember that, Ana."},
    {"role": "user", "content": [{"type": "text", "text": "Where shall we eat in Lisbon?"}]},
]
TEXTS = [
    ("user", "I am Ana, and I never eat meat."),
    ("assistant", "I will remember that, Ana."),
    ("user", "Where shall we eat in Lisbon?"),
]
GOAL = "Dinner in Lisbon"
SCRIPT = (
    Call("add_messages", {"messages": SAID[:2]}),
    Call("add_messages", {"messages": SAID[2:]}),
    Call("recall_memory", {"query": "What does Ana never eat?"}),
    Call("get_context", {}),
    Call("plan", {"action": "create", "plan": {"goal": GOAL, "steps": [{"description": "Find a place"}]}}),
    Call("get_messages", {}),
)


@dataclass(frozen=True)
class Memory:
    """A memory of its own, and how a snippet and our own client reach it. ``transport``: the snippet's function."""

    transport: str
    home: Path
    url: str = ""
    key: str = ""

    @property
    def constants(self) -> dict[str, str]:
        """What a snippet leaves open."""
        return {"PROGRAM": PROGRAM} | ({"URL": self.url, "KEY": self.key} if self.url else {})

    def seen(self) -> "Kept":
        """What our own client finds, after the conversation."""
        return anyio.run(self._look)

    async def _look(self) -> "Kept":
        async with contextlib.AsyncExitStack() as open_until_seen:
            if self.url:
                http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {self.key}"})
                transport: Any = streamable_http_client(
                    self.url, http_client=await open_until_seen.enter_async_context(http)
                )
            else:
                # Nothing is searched, and loading an embedder takes a second.
                settings = {"HOME": str(self.home), "LAYERLORE_EMBEDDING__EMBEDDER": "none"}
                transport = stdio_client(StdioServerParameters(command=PROGRAM, args=["--alone"], env=settings))
            client = await open_until_seen.enter_async_context(Client(transport))
            listed = [tool.name for tool in (await client.list_tools()).tools]
            threads = await _called(client, "list_threads", {})
            messages = {}
            for thread in threads["threads"]:
                page = await _called(client, "get_messages", {"format": "json", "thread_id": thread["thread_id"]})
                messages[thread["thread_id"]] = [_said(message) for message in page["messages"]]
            return Kept(listed, messages)


@dataclass(frozen=True)
class Kept:
    """The tools that are listed, and of every thread who said what."""

    tools: list[str]
    threads: dict[str, list[tuple[str, str]]]


async def _called(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


def _said(message: dict[str, Any]) -> tuple[str, str]:
    return message["role"], "".join(part.get("text", "") for part in message["parts"])


@contextlib.contextmanager
def memory(transport: str, home: Path) -> Iterator[Memory]:
    """An empty memory: on stdio a home folder, over HTTP a server too."""
    if transport == "on_stdio":
        yield Memory(transport, home)
        return
    environment = {**quiet(home), "LAYERLORE_HTTP__PORT": "0", "LAYERLORE_DATA_DIR": str(home / "memory")}
    with subprocess.Popen([PROGRAM, "serve"], stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stderr is not None
            listening = re.search(r"listens on (http://127\.0\.0\.1:\d+/mcp)", server.stderr.readline())
            assert listening
            yield Memory(transport, home, listening[1], (home / "memory" / "http-key").read_text().strip())
        finally:
            server.terminate()


def talk(python: Path, snippet: str, memory: Memory, thread: str, prompt: str, model: ScriptedModel) -> Any:
    """What a snippet (a path in the folder `python`) answers a prompt, in its framework's own environment."""
    given = {"constants": memory.constants, "transport": memory.transport, "thread": thread, "prompt": prompt}
    done = subprocess.run(
        [python, "-P", RUNNER, FOLDER / snippet, json.dumps(given)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**quiet(memory.home), **_of(model)},
        cwd=memory.home,
    )
    assert done.returncode == 0, done.stderr[-20_000:]
    return json.loads(done.stdout.splitlines()[-1])


def _of(model: ScriptedModel) -> dict[str, str]:
    """How the clients of OpenAI and Gemini find this model instead."""
    return {
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": f"{model.url}/v1",
        "OPENAI_API_BASE": f"{model.url}/v1",  # llama-index
        "GOOGLE_API_KEY": "test",
        "GOOGLE_GEMINI_BASE_URL": model.url,
    }


def quiet(home: Path) -> dict[str, str]:
    """A home of its own, no settings of ours, nothing told to anybody, and no way out."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAYERLORE_", "PYTHON"))}
    nowhere = "http://127.0.0.1:9"
    return kept | {
        "HOME": str(home),
        # The server that the hosts of this home share ends soon after them.
        "LAYERLORE_LOCAL__IDLE_MINUTES": "0.02",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "AGNO_TELEMETRY": "false",
        "LANGSMITH_TRACING": "false",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "FASTMCP_CHECK_FOR_UPDATES": "off",
    }
