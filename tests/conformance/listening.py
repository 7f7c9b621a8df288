"""Somebody who is told of hints, for the tests of them."""

import asyncio
from collections.abc import Callable

from layerlore.storage.core.transaction import Concerns

PATIENCE = 120.0  # seconds: only a hang takes so long


class Ear:
    """Keeps every hint."""

    def __init__(self) -> None:
        self.hints: list[Concerns] = []
        self._heard = asyncio.Event()

    def __call__(self, concerns: Concerns) -> None:
        self.hints.append(concerns)
        self._heard.set()

    async def next(self) -> Concerns:
        """The oldest hint that was not given yet."""
        await self.until(lambda: bool(self.hints))
        return self.hints.pop(0)

    async def until(self, fulfilled: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not fulfilled():
                self._heard.clear()
                await self._heard.wait()

    def forget(self) -> None:
        self.hints.clear()
