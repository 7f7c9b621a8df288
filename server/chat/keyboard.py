"""Where a person's lines come from: a terminal with history and completion, or a pipe."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import InMemoryHistory


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
