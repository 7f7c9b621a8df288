"""``layerlore demo``: a real server over stdio, called by the official client, and what it remembers after a restart."""

import asyncio
import contextlib
import json
import secrets
import shlex
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from layerlore.server.command_line.options import read_settings
from layerlore.server.command_line.suggestions import suggest
from layerlore.server.hosts.catalog import NAME
from layerlore.server.process.program import launch_command
from layerlore.server.process.version import VERSION
from layerlore.server.settings.local_key import key_file, read_key
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import LayerloreError

Conversation = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Story:
    """Two conversations by thread; a question that they answer, one that they answer in other words, and one that they do
    not answer; and the thread that is read back."""

    conversations: dict[str, Conversation]
    question: str
    in_other_words: str
    unanswered: str
    read_back: str


def make_story() -> Story:
    """The story, with a new token in it that looks real but opens nothing."""
    # The token shows that secrets are masked; a random one cannot match a real credential.
    token = f"ghp_{secrets.token_hex(18)}"
    return Story(
        conversations={
            "birthday": [
                _user("Mira turns 7 on Saturday. Submarine cake! She is allergic to nuts."),
                _assistant("A yellow one: lemon sponge, chocolate portholes, not one nut."),
                _user("Grandma Ilse bakes it. She needs the recipe by Thursday."),
                _assistant("It goes out on Wednesday, with a drawing of the periscope."),
            ],
            "home-server": [
                _user(f"Our home server is called Nautilus. Its deploy token is {token}"),
                _assistant("Noted. I will use the token and repeat it to nobody."),
                _user("Its backups stutter through film night. Can they move?"),
                _assistant("Done: they run at 03:00 now, when only the cat is watching."),
            ],
        },
        question="What is Mira allergic to?",
        in_other_words="Who prepares our party dessert?",
        unanswered="Where did I park the bicycle?",
        read_back="home-server",
    )


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def _assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


@dataclass(frozen=True, slots=True)
class Snippet:
    """A host, where its configuration is, the text to put there, and the file in ``configs/clients`` that holds the same."""

    host: str
    where: str
    text: str
    file: str


def make_snippets(command: Sequence[str]) -> list[Snippet]:
    """The configuration of each host for a stdio server that ``command`` launches."""
    program, *arguments = command
    entry: dict[str, object] = {"command": program, "args": arguments}
    add = shlex.join(["claude", "mcp", "add", "--scope", "user", "--transport", "stdio", NAME, "--", *command])
    return [
        Snippet(
            "Claude Desktop",
            "claude_desktop_config.json (Settings > Developer > Edit Config; then restart it)",
            _json("mcpServers", entry),
            "claude-desktop.json",
        ),
        Snippet("Claude Code", "in a shell", add, "claude-code.sh"),
        Snippet("Cursor", ".cursor/mcp.json or ~/.cursor/mcp.json", _json("mcpServers", entry), "cursor.json"),
        Snippet("VS Code", ".vscode/mcp.json", _json("servers", {"type": "stdio", **entry}), "vscode.json"),
    ]


def _json(key: str, entry: dict[str, object]) -> str:
    return f'{{\n  "{key}": {{\n    "{NAME}": {json.dumps(entry, ensure_ascii=False)}\n  }}\n}}'


PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.05
_ROLES = {"user": "cyan", "assistant": "green"}


class DemoFailed(LayerloreError):
    """The demo could not be shown. The text says why."""


@dataclass(frozen=True, slots=True)
class _Session:
    """A client of a server that was just started, and the seconds that the start took."""

    client: Client
    started_in: float

    async def call(self, tool: str, **arguments: Any) -> tuple[Any, str]:
        """Call a tool. Returns its answer (the structure, else the text) and the time it took. Raises DemoFailed."""
        began = time.perf_counter()
        result = await self.client.call_tool(tool, arguments)
        took = f"{(time.perf_counter() - began) * 1000:.0f} ms"
        assert isinstance(result, CallToolResult)
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        if result.is_error:
            raise DemoFailed(f"{tool} failed: {text}")
        return (text if result.structured_content is None else result.structured_content), took


def run_demo(settings: Settings) -> int:
    """Show the demo, and how to connect agents. It uses only the HTTP key's place from the settings. Returns 0.

    Raises DemoFailed, KeyUnusable or OSError.
    """
    console = Console(markup=False, highlight=False)
    # The server of the demo may still hold a file on Windows when the folder is removed.
    with tempfile.TemporaryDirectory(prefix="layerlore-demo-", ignore_cleanup_errors=True) as folder:
        console.print(f"layerlore {VERSION}: a memory for agents", style="bold")
        console.print("A server with a database in a temporary folder, called by the official MCP client;")
        console.print("its first call waits until the database is open.")
        asyncio.run(_remember_and_recall(console, Path(folder), make_story()))
    show_connecting(console, settings)
    return 0


async def _remember_and_recall(console: Console, folder: Path, story: Story) -> None:
    async with _server(folder) as first:
        aside = f"the server answers after {first.started_in:.2f} s"
        _heading(console, "1. Two conversations are stored", aside)
        for thread, messages in story.conversations.items():
            answer, took = await first.call("add_messages", thread_id=thread, messages=messages, ids=True)
            if "masked" in answer:
                masked = f", {answer['masked']} secret masked"
            else:
                masked = ""
            totals = f"{answer['totals']['messages']} messages, {answer['totals']['tokens']} tokens{masked}"
            console.print(_line(f"add_messages, thread {thread}: {totals}", took))
            _show_messages(console, [(message["role"], message["content"]) for message in messages])
    # A second process proves that the memory is in the file, not in the first server.
    async with _server(folder) as second:
        aside = f"answers after {second.started_in:.2f} s"
        _heading(console, "2. The process ends, and a new one opens the same file", aside)
        # Recall by meaning needs the vectors, which a background task makes.
        console.print(await _until_embedded(second))
        for number, question, remark in (
            (3, story.question, ""),
            (4, story.in_other_words, ", in other words"),
            (5, story.unanswered, ", never mentioned"),
        ):
            answer, took = await second.call("recall_memory", query=question, limit=1, opening=False)
            _heading(console, f"{number}. {question}", f"recall_memory, {took}{remark}")
            _show_indented(console, answer)
        page, took = await second.call("get_messages", thread_id=story.read_back, format="json")
        _heading(console, f"6. The thread {story.read_back} is read back", f"get_messages, {took}")
        _show_messages(console, [(message["role"], message["parts"][0]["text"]) for message in page["messages"]])
        status, took = await second.call("memory_status")
        _heading(console, "7. The status of the memory", f"memory_status, {took}")
        console.print(_status_line(status))


async def _until_embedded(session: _Session) -> Text:
    """Wait until every message has its vector. Returns a line about them. Raises DemoFailed."""
    began = time.perf_counter()
    while True:
        status, _ = await session.call("memory_status")
        vectors = status["vectors"]
        if vectors["state"] == "failed":
            raise DemoFailed(f"the embedder failed: {vectors['reason']}")
        if vectors["state"] == "ready" and not vectors["pending"]:
            took = f"ready after {time.perf_counter() - began:.1f} s"
            return _line(f"{vectors['total']} vectors, made by {vectors['model']} on this machine", took)
        await asyncio.sleep(_POLL_SECONDS)


@contextlib.asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[_Session]:
    """A server process on the folder's database, which ends with the block. Raises DemoFailed for any error."""
    # --alone: a shared server would serve the user's own memory.
    arguments = ["-m", "layerlore.server", "--alone", "--data-dir", str(folder)]
    log = folder / "server.log"
    try:
        with log.open("w", encoding="utf-8") as errlog, anyio.fail_after(PATIENCE_SECONDS):
            transport = stdio_client(
                StdioServerParameters(command=sys.executable, args=arguments, cwd=folder), errlog=errlog
            )
            began = time.perf_counter()
            async with Client(transport) as client:
                yield _Session(client, time.perf_counter() - began)
    except Exception as error:
        raise DemoFailed(_why(error, log)) from error


def _why(error: BaseException, log: Path) -> str:
    # The client's task group wraps the error that says what happened.
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, DemoFailed):
        return str(error)
    if log.exists():
        lines = log.read_text(encoding="utf-8").split("\n")
    else:
        lines = []
    # The log's last line names the cause when the process died before it could answer.
    last = next((line for line in reversed(lines) if line.strip()), "nothing")
    if isinstance(error, TimeoutError):
        reason = "it took too long"
    else:
        reason = str(error) or type(error).__name__
    return f"the server failed: {reason}; the last line of its log: {last}"


def _heading(console: Console, text: str, aside: str) -> None:
    console.print(Text.assemble("\n", (text, "bold"), (f"  ({aside})", "dim")))


def _line(text: str, took: str) -> Text:
    return Text.assemble(text, (f"  ({took})", "dim"))


def _show_messages(console: Console, messages: list[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 1))
    for role, text in messages:
        table.add_row(" ", Text(role, style=_ROLES[role]), Text(text))
    console.print(table)


def _show_indented(console: Console, answer: str) -> None:
    for line in answer.splitlines():
        text = line.lstrip(" ")
        console.print(Padding(Text(text, style="yellow"), (0, 0, 0, len(line) - len(text)), expand=False))


def _status_line(status: dict[str, Any]) -> str:
    counts, database = status["counts"], status["database"]
    degraded = "; ".join(status["degraded"]) or "nothing degraded"
    return (
        f"{counts['threads']} threads, {counts['messages']} messages, {counts['tokens']} tokens in "
        f"{database['kind']} {database.get('sqlite', '')}; {degraded}"
    )


def show_connecting(console: Console, settings: Settings) -> None:
    """Show how to configure each host for this layerlore, over stdio and over HTTP. Raises KeyUnusable or OSError."""
    console.print("\nConnect your agents (their memory is kept in your own data folder)", style="bold")
    for snippet in make_snippets(launch_command()):
        console.print(Text.assemble((snippet.host, "bold"), f": {snippet.where}"), soft_wrap=True)
        console.print(Text(snippet.text), style="cyan", soft_wrap=True)
    key, url = read_key(settings.data_dir), f"http://127.0.0.1:{settings.http.port}"
    over_http = f": `{suggest('serve')}`, then {url}/mcp (SSE: {url}/sse) with the header"
    console.print(Text.assemble(("Over HTTP", "bold"), over_http), soft_wrap=True)
    console.print(Text("Authorization: Bearer KEY"), style="cyan", soft_wrap=True)
    if key is not None:
        where = "KEY is in"
    else:
        where = "The first start writes KEY to"
    console.print(f"{where} {key_file(settings.data_dir)}", soft_wrap=True)


def demo(flags: dict[str, Any]) -> int:
    """Show the memory at work in a temporary folder, and how to connect agents to it."""
    return run_demo(read_settings(flags))
