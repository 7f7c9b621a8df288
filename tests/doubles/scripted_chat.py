"""A chat that says what it was told to, kind by kind, and waits or fails."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import anyio

from layerlore.extraction.chat.chat_port import ChatAnswer, ChatFailed
from layerlore.extraction.kinds.kind import Material
from layerlore.storage.audit.usage_rows import UsageSums

Reply = dict[str, Any] | Exception | Callable[[Material], Any]
"""What is answered: an object, an error that is raised, or a function of the material that gives either."""


class ScriptedChat:
    """``tell`` puts replies in line; the last one that a kind was told stays. ``asked`` keeps what it was given.

    While it is held, every answer waits for ``release``; ``begun`` says that one does.
    """

    def __init__(self, name: str = "scripted/one", **replies: Reply) -> None:
        """``replies``: by kind."""
        self.name = name
        self.request: list[tuple[str, Material]] = []
        self.spends = UsageSums(1, 100, 20, 3_000)
        self.begun = anyio.Event()
        self._replies: dict[str, deque[Reply]] = defaultdict(deque)
        self._gate = anyio.Event()
        self._gate.set()
        for kind, reply in replies.items():
            self.tell(kind, reply)

    def tell(self, kind: str, *replies: Reply) -> None:
        self._replies[kind].extend(replies)

    def hold(self) -> None:
        self.begun, self._gate = anyio.Event(), anyio.Event()

    def release(self) -> None:
        self._gate.set()

    def of(self, kind: str) -> list[Material]:
        """The material of every answer of a kind that was asked for."""
        return [material for request, material in self.request if request == kind]

    def model(self, kind: str) -> str:
        """Its name, for the kinds that it was told something for."""
        return self.name if self._replies.get(kind) else ""

    async def answer(self, kind: str, material: Material) -> ChatAnswer:
        self.request.append((kind, material))
        self.begun.set()
        await self._gate.wait()
        line = self._replies[kind]
        reply: Any = line.popleft() if len(line) > 1 else line[0] if line else None
        if callable(reply):
            reply = reply(material)
        if reply is None:
            raise ChatFailed(f"{self.name}: it was told nothing for {kind}", retryable=False)
        if isinstance(reply, Exception):
            raise reply
        return ChatAnswer(reply, self.name, self.spends)
