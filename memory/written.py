"""News of writes, for those who do something about what was written: make vectors of it, do the jobs it made due."""

import asyncio

from layerlore.storage.records import Scope


class Written:
    """Whose memory was written to. For one event loop, and one who waits."""

    def __init__(self) -> None:
        self._scopes: set[Scope] = set()
        self._told = asyncio.Event()

    def tell(self, scope: Scope) -> None:
        """Something was committed."""
        self._scopes.add(scope)
        self._told.set()

    async def wait(self) -> None:
        """Return once there is something to take."""
        await self._told.wait()

    def take(self) -> set[Scope]:
        """The scopes of which was told since the last time."""
        scopes, self._scopes = self._scopes, set()
        self._told.clear()
        return scopes


class Wake:
    """That something was written, whatever it was. For one event loop, and one who waits."""

    def __init__(self) -> None:
        self._told = asyncio.Event()

    def tell(self) -> None:
        """Something was committed."""
        self._told.set()

    async def wait(self) -> None:
        """Return once it was told, since it was last cleared."""
        await self._told.wait()

    def clear(self) -> None:
        self._told.clear()
