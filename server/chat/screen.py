"""The screen of a person: an answer as it comes, tables, and what the agent does meanwhile."""

import os
import re
import sys
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]
_FENCE = "```"
_LONGEST_ARGUMENTS = 200
# Characters that control the terminal and could hide the call that a person should approve.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


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
    at = text.rfind("\n\n")
    while at > 0 and text.count(_FENCE, 0, at) % 2:
        at = text.rfind("\n\n", 0, at)
    if at > 0:
        return (text[:at], text[at + 2 :])
    return ("", text)


def _mask(text: str) -> str:
    return _CONTROL.sub("\ufffd", text.replace("\r", ""))


def _clip(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= _LONGEST_ARGUMENTS:
        return line
    return line[: _LONGEST_ARGUMENTS - 1] + "…"
