"""The connections of a server: each is closed by the server once its client has kept it waiting for too long."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from layerlore.server.access.answers import CONNECTION
from layerlore.server.http_heads import BoundedHeads

log = logging.getLogger(__name__)

_LOOKS = 4
"""So often within the shortest of the times."""
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """``write_seconds``: in which a client may read nothing of what was written to it."""

    write_seconds: float = 60.0


class Connections:
    """All that are open. ``look`` has to be called again and again. ``clock`` gives seconds that never go back."""

    def __init__(self, limits: ConnectionLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.clock = clock
        self._open: set[HttpConnection] = set()
        self._every = min(_LOOK_SECONDS, limits.write_seconds / _LOOKS)
        self._next_look = 0.0

    def protocol(self, **given: Any) -> "HttpConnection":
        """One more, as uvicorn makes them."""
        return HttpConnection(self, **given)

    def add(self, connection: "HttpConnection") -> None:
        self._open.add(connection)

    def discard(self, connection: "HttpConnection") -> None:
        self._open.discard(connection)

    def look(self) -> None:
        """Close those whose time is over, if it is time to look."""
        now = self.clock()
        if now < self._next_look:
            return
        self._next_look = now + self._every
        for connection in list(self._open):
            if why := connection.overdue(now):
                log.info("a connection is closed: %s", why)
                connection.abort()


class HttpConnection(BoundedHeads):
    """uvicorn's protocol, which says how much its client has not read."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._all = connections
        self._unsent = 0
        self._unsent_since = 0.0
        self._gone = False

    @property
    def unsent(self) -> int:
        """The bytes that were written and that the socket has not taken; 0 once the connection is gone."""
        return 0 if self._gone else self.transport.get_write_buffer_size()

    async def taken(self) -> None:
        """Wait until there are none."""
        await self.flow.drain()

    def abort(self) -> None:
        """Close it, and drop what was not sent."""
        self._gone = True
        self.transport.abort()

    def overdue(self, now: float) -> str:
        """Why it is to be closed; "" if it is not."""
        before, self._unsent = self._unsent, self.unsent
        if not self._unsent or self._unsent < before or not before:
            self._unsent_since = now
        most = self._all.limits.write_seconds
        return f"nothing was read from it for {most:g} s" if now - self._unsent_since >= most else ""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Whatever the socket does not take holds up who writes.
        transport.set_write_buffer_limits(high=0)
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._all.discard(self)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]
