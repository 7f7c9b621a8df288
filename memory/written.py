"""News of writes, for the one who makes vectors of what was written."""

import asyncio

from memstrata.storage.records import Scope


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
