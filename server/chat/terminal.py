"""The chat's terminal: what it prints, what the user types, and the events that it follows."""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import InMemoryHistory
from rich.console import Console, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from layerlore.server.chat.memory import Memory, as_json

Json = dict[str, Any]
_FENCE = "```"
_LONGEST_ARGUMENTS = 200
_LINE_BREAK = re.compile(r"[\v\f\x85]")
# Characters that control the terminal and could hide the call that a person should approve.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")


class _Console(Console):
    """A console that falls silent if its reader has left; rich's would end the program within a turn."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        # The rest in its buffer would be an error at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


class Screen:
    """A terminal, or a pipe, which gets the answers as plain text."""

    def __init__(self) -> None:
        self.console = _Console(highlight=False)
        # Only the answer goes into a pipe that takes the answer.
        self._aside = self.console if self.console.is_terminal else _Console(highlight=False, stderr=True)
        self._live: Live | None = None
        self._coming = ""

    @property
    def is_closed(self) -> bool:
        """Whether the reader of the answers has left."""
        return self.console.quiet

    def say(self, piece: str) -> None:
        """Show a piece of an answer. In a terminal each paragraph is set as Markdown once it is whole."""
        # A pipe gets the answer unchanged, piece by piece, so that another program can read along.
        if not self.console.is_terminal:
            try:
                sys.stdout.write(piece)
                sys.stdout.flush()
            except BrokenPipeError:
                self.console.on_broken_pipe()
            self._coming += piece
            return
        self._coming += _mask(piece)
        whole, rest = _split(self._coming)
        if whole:
            self._stop_live()
            self.console.print(Markdown(whole))
            self._coming = rest
        if self._coming.strip():
            # Text that may still change is drawn anew each time, and vanishes when it is printed for good.
            self._show_live(Text(self._coming))

    def end_answer(self) -> None:
        """Show the rest of what came. Does nothing if none exists."""
        self._stop_live()
        rest, self._coming = self._coming, ""
        if rest.strip():
            self.console.print(Markdown(rest) if self.console.is_terminal else "")

    def note(self, text: str, style: str = "dim") -> None:
        """A line about what is going on."""
        self.end_answer()
        self._aside.print(Text(_mask(text), style=style), soft_wrap=True)

    def block(self, text: str) -> None:
        """A text as it is."""
        self.console.print(Text(_mask(text)), soft_wrap=True)

    def table(self, *columns: str, rows: list[list[str]]) -> None:
        table = Table(*columns, box=None, header_style="bold", pad_edge=False)
        for row in rows:
            table.add_row(*(Text(_mask(cell)) for cell in row))
        self.console.print(table)

    def event(self, kind: str, payload: Json) -> None:
        """A lifecycle event, as far as a person wants to know of it."""
        if kind == "TurnStart" and self.console.is_terminal:
            self._show_live(Spinner("dots"))
        elif kind == "ToolExecutionStart":
            self.note(f"→ {payload['toolName']} {_clip(str(payload['args']))}")
        elif kind == "ToolExecutionEnd" and payload["isError"]:
            self.note(f"  {_clip(str(payload['result']))}", style="red")

    def _show_live(self, shown: RenderableType) -> None:
        if self._live is None:
            self._live = Live(console=self.console, transient=True, refresh_per_second=10)
            self._live.start()
        self._live.update(shown)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _split(text: str) -> tuple[str, str]:
    """The whole paragraphs, and what may still grow: a fence of code is one paragraph."""
    # A blank line inside a fence ends no paragraph, so the search goes back to one outside.
    at = text.rfind("\n\n")
    while at > 0 and text.count(_FENCE, 0, at) % 2:
        at = text.rfind("\n\n", 0, at)
    if at > 0:
        return (text[:at], text[at + 2 :])
    return ("", text)


def _mask(text: str) -> str:
    # A carriage return may come in another piece than its new line, so it is left out rather than replaced.
    return _CONTROL.sub("\ufffd", _LINE_BREAK.sub("\n", text.replace("\r", "")))


def _clip(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= _LONGEST_ARGUMENTS:
        return line
    return line[: _LONGEST_ARGUMENTS - 1] + "…"


class Keyboard(Protocol):
    async def line(self, prompt: str) -> str | None:
        """The next line; None at the end of the input."""

    async def answer(self, question: str) -> str:
        """The answer to a question; empty if none exists."""


class TerminalKeyboard:
    """``remembered``: the lines that arrow keys bring back, oldest first. They come from the memory and are in no file, so
    that what is forgotten is not typed again."""

    def __init__(self, commands: Sequence[str], status: Callable[[], str], remembered: Iterable[str] = ()) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=InMemoryHistory(list(remembered)),
            completer=WordCompleter(list(commands), sentence=True),
            complete_while_typing=False,
            bottom_toolbar=status,
        )
        self._questions: PromptSession[str] = PromptSession()

    async def line(self, prompt: str) -> str | None:
        while True:
            try:
                return await self._session.prompt_async(prompt)
            # Ctrl-C at the prompt only drops the line; Ctrl-D ends the chat.
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None

    async def answer(self, question: str) -> str:
        try:
            return (await self._questions.prompt_async(question)).strip()
        except (KeyboardInterrupt, EOFError):
            return ""


class PipeKeyboard:
    """Standard input that is not a terminal: a line for each message or answer."""

    async def line(self, prompt: str) -> str | None:
        read = await asyncio.to_thread(sys.stdin.readline)
        return read.rstrip("\n") if read else None

    async def answer(self, question: str) -> str:
        return (await self.line(question) or "").strip()


LIFECYCLE = ["AgentStart", "AgentEnd", "TurnStart", "TurnEnd", "ToolExecutionStart", "ToolExecutionEnd", "Error"]
RUN_STATES = ["run_started", "run_suspended", "run_resumed", "run_completed", "run_failed", "run_cancelled"]


async def follow(memory: Memory, screen: Screen) -> None:
    """Show what is recorded from now on, until it is interrupted or its reader leaves. Between two looks nothing is
    missed: the log has a number for each event."""
    # The number is read before the subscription, so that an event between the two is not missed.
    seen = (await memory.call("list_events", limit=1))["last_seq"]
    screen.note(f"following {memory.thread_id}; Ctrl-C ends it")
    async for _ in memory.changes(f"memory://threads/{memory.thread_id}/events"):
        # One notice may stand for many events, since the server merges notices that come quickly.
        more = True
        while more:
            page = await memory.call("list_events", after=seen, types=[*LIFECYCLE, *RUN_STATES], limit=200)
            for event in page["events"]:
                _show(event, screen)
            seen, more = page["next"], page["more"]
        if screen.is_closed:
            return


def local_time(time: str) -> str:
    """An ISO time as this machine's clock shows it, with its date: ``2024-03-15 09:30:05``."""
    moment = datetime.fromisoformat(time).astimezone()
    return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")


def _show(event: Json, screen: Screen) -> None:
    # The id is the same in each event of a run and would only fill the line.
    payload = {key: value for key, value in event["payload"].items() if key != "operation_id"}
    screen.block(f"{local_time(event['at'])[11:]} {event['type']} {as_json(payload) if payload else ''}")
