"""News of writes, for what follows them in the background: vectors of what was written, and jobs that became due."""

import asyncio

from layerlore.storage.core.records import Scope


class Written:
    """The scopes whose memory was written to. For one event loop, with one task that waits."""

    def __init__(self) -> None:
        self._scopes: set[Scope] = set()
        self._noted = asyncio.Event()

    def notify(self, scope: Scope) -> None:
        """Note that something of a scope was committed."""
        self._scopes.add(scope)
        self._noted.set()

    async def wait(self) -> None:
        """Return once there is something to take."""
        await self._noted.wait()

    def take(self) -> set[Scope]:
        """The scopes that were noted since the last time."""
        scopes, self._scopes = self._scopes, set()
        self._noted.clear()
        return scopes


class Wake:
    """A signal that something was written. For one event loop, with one task that waits."""

    def __init__(self) -> None:
        self._noted = asyncio.Event()

    def notify(self) -> None:
        """Note that something was committed."""
        self._noted.set()

    async def wait(self) -> None:
        """Return once something was committed since the signal was cleared."""
        await self._noted.wait()

    def clear(self) -> None:
        """Wait for the next commit from now on."""
        self._noted.clear()
