"""``layerlore demo``: a real server over stdio, driven by the official client, and what it remembers when restarted."""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import version
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

from layerlore.server.commands.client_config import snippets
from layerlore.server.commands.demo_story import Story, story
from layerlore.server.local_key import key_file, read_key
from layerlore.server.program import launch_command, shell_command
from layerlore.server.settings import Settings
from layerlore.storage.errors import LayerloreError

PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.05
_ROLES = {"user": "cyan", "assistant": "green"}


class DemoFailed(LayerloreError):
    pass


@dataclass(frozen=True, slots=True)
class _Session:
    """A client of a server that was just started, and how long the start took, in seconds."""

    client: Client
    started_in: float

    async def call(self, tool: str, **arguments: Any) -> tuple[Any, str]:
        """A tool's answer (its structure, or else its text), and how long it took. Raises DemoFailed."""
        began = time.perf_counter()
        result = await self.client.call_tool(tool, arguments)
        took = f"{(time.perf_counter() - began) * 1000:.0f} ms"
        assert isinstance(result, CallToolResult)
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        if result.is_error:
            raise DemoFailed(f"{tool} failed: {text}")
        return (text if result.structured_content is None else result.structured_content), took


def demo(settings: Settings) -> int:
    """Show it, and how to connect agents to it. Of the settings it uses only where the HTTP key is. Returns 0.

    Raises DemoFailed, KeyUnusable or OSError.
    """
    console = Console(markup=False, highlight=False)
    with tempfile.TemporaryDirectory(prefix="layerlore-demo-", ignore_cleanup_errors=True) as folder:
        console.print(f"layerlore {version('layerlore')}: a memory for agents", style="bold")
        console.print("A server on a database in a temporary folder, called by the official MCP client;")
        console.print("its first call waits until the database is open.")
        asyncio.run(_remember_and_recall(console, Path(folder), story()))
    show_connecting(console, settings)
    return 0


async def _remember_and_recall(console: Console, folder: Path, told: Story) -> None:
    async with _server(folder) as first:
        aside = f"server answers after {first.started_in:.2f} s"
        _heading(console, "1. Two conversations are stored", aside)
        for thread, messages in told.conversations.items():
            answer, took = await first.call("add_messages", thread_id=thread, messages=messages)
            masked = f", {answer['masked']} secret masked" if "masked" in answer else ""
            totals = f"{answer['totals']['messages']} messages, {answer['totals']['tokens']} tokens{masked}"
            console.print(_line(f"add_messages, thread {thread}: {totals}", took))
            _show_messages(console, [(message["role"], message["content"]) for message in messages])
    async with _server(folder) as second:
        aside = f"answers after {second.started_in:.2f} s"
        _heading(console, "2. The process ends, and a new one opens the same file", aside)
        console.print(await _until_embedded(second))
        for number, question, remark in (
            (3, told.question, ""),
            (4, told.in_other_words, ", in other words"),
            (5, told.unanswered, ""),
        ):
            answer, took = await second.call("recall_memory", query=question, limit=1)
            _heading(console, f"{number}. {question}", f"recall_memory, {took}{remark}")
            _show_indented(console, answer)
        page, took = await second.call("get_messages", thread_id=told.read_back)
        _heading(console, f"6. The thread {told.read_back} is read back", f"get_messages, {took}")
        _show_messages(console, [(message["role"], message["parts"][0]["text"]) for message in page["messages"]])
        status, took = await second.call("memory_status")
        _heading(console, "7. What there is now", f"memory_status, {took}")
        console.print(_status_line(status))


async def _until_embedded(session: _Session) -> Text:
    """Wait until every message has its vector. Returns what to say of them. Raises DemoFailed."""
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
    """A server process on the folder's database, ended with the block. Raises DemoFailed for whatever went wrong."""
    arguments = ["-m", "layerlore.server", "--data-dir", str(folder)]
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
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, DemoFailed):
        return str(error)
    lines = log.read_text(encoding="utf-8").split("\n") if log.exists() else []
    said = next((line for line in reversed(lines) if line.strip()), "nothing")
    told = "it took too long" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    return f"the server did not do as it should: {told}; the last it said was: {said}"


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
    """How each host is told of this layerlore, over stdio and over HTTP. Raises KeyUnusable or OSError."""
    console.print("\nConnect your agents (memory is kept in your own data folder then)", style="bold")
    for snippet in snippets(launch_command()):
        console.print(Text.assemble((snippet.host, "bold"), f": {snippet.where}"), soft_wrap=True)
        console.print(Text(snippet.text), style="cyan", soft_wrap=True)
    key, url = read_key(settings.data_dir), f"http://127.0.0.1:{settings.http.port}"
    over_http = f": {shell_command('serve')}, then {url}/mcp (SSE: {url}/sse) with the header"
    console.print(Text.assemble(("Over HTTP", "bold"), over_http), soft_wrap=True)
    console.print(Text("Authorization: Bearer KEY"), style="cyan", soft_wrap=True)
    where = "KEY is in" if key is not None else "The first start writes KEY to"
    console.print(f"{where} {key_file(settings.data_dir)}", soft_wrap=True)
