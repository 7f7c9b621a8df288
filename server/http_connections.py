"""The connections of a server: how many there may be, and that each is closed once its client keeps it waiting too long.

All of it is before any credential is looked at: who connects and says nothing, or a byte now and then, takes a
descriptor and some memory for as long as it is let.
"""

import ipaddress
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from layerlore.server.access.answers import CONNECTION
from layerlore.server.episodes import Episodes
from layerlore.server.http_heads import BoundedHeads

log = logging.getLogger(__name__)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

THIS_MACHINE: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
KEPT_FILES = 256
"""Of the files that may be open, so many are for others than connections: the database, its journal, the log."""
GRACE_SECONDS = 5.0
"""How much longer a body may take than what reads it waits, which can still say so."""

_LOOKS = 4
"""So often within the shortest of the times."""
_LOOK_SECONDS = 1.0
_HOME_BITS = 64  # of an IPv6 address: the network of one customer
_STATUS = HTTPStatus.SERVICE_UNAVAILABLE
_BUSY = (
    f"HTTP/1.1 {_STATUS.value} {_STATUS.phrase}\r\ncontent-length: 0\r\nretry-after: 5\r\nconnection: close\r\n\r\n"
).encode()


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How long a client may take, in seconds, and how many connections there may be.

    ``head_seconds``: for a whole head, from connecting, or from the first byte after an answer. ``body_seconds``: for a
    whole body. ``write_seconds``: in which it reads nothing of what was written to it. ``most``: in all.
    ``most_of_address``: of one IPv4 address or one IPv6 network of 64 bits, but for ``exempt`` ones.
    """

    head_seconds: float = 30.0
    body_seconds: float = 30.0
    write_seconds: float = 60.0
    most: int = 4096
    most_of_address: int = 512
    exempt: tuple[Network, ...] = THIS_MACHINE


class Connections:
    """All that are open. ``look`` has to be called again and again. ``files``: how many this process may have open.
    ``clock`` gives seconds that never go back."""

    def __init__(
        self, limits: ConnectionLimits, *, files: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits
        self.clock = clock
        self._most = limits.most if files is None else min(limits.most, max(files - KEPT_FILES, files // 2))
        if self._most < limits.most:
            log.warning("%s connections at most: this process may open %s files", f"{self._most:,}", f"{files:,}")
        self._open: dict[HttpConnection, str] = {}
        self._of_address: Counter[str] = Counter()
        self._episodes = Episodes(clock)
        shortest = min(limits.head_seconds, limits.body_seconds, limits.write_seconds)
        self._every = min(_LOOK_SECONDS, shortest / _LOOKS)
        self._next_look = 0.0

    def protocol(self, **given: Any) -> "HttpConnection":
        """One more, as uvicorn makes them."""
        return HttpConnection(self, **given)

    def add(self, connection: "HttpConnection", host: str) -> bool:
        """Whether there is room for one from that address."""
        address = _counted_as(host, self.limits.exempt)
        if len(self._open) >= self._most:
            self._tell("", "connections are refused: %s are open, as many as may be (http.max_connections)", self._most)
            return False
        if address and self._of_address[address] >= self.limits.most_of_address:
            told = "connections of %s are refused: %s are open (http.max_connections_per_address)"
            self._tell(address, told, address, self.limits.most_of_address)
            return False
        self._open[connection] = address
        if address:
            self._of_address[address] += 1
        return True

    def discard(self, connection: "HttpConnection") -> None:
        address = self._open.pop(connection, "")
        if address:
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    def look(self) -> None:
        """Close those whose time is over, if it is time to look."""
        now = self.clock()
        if now < self._next_look:
            return
        self._next_look = now + self._every
        for connection in list(self._open):
            if why := connection.overdue(now):
                if self._episodes.begins(why):
                    log.info("connections are closed: %s", why)
                connection.abort()

    def _tell(self, episode: str, told: str, *values: Any) -> None:
        if self._episodes.begins(episode):
            log.warning(told, *values)


class HttpConnection(BoundedHeads):
    """uvicorn's protocol, which knows what it waits for, and how much its client has not read."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._all = connections
        self._unsent = 0
        self._unsent_since = 0.0
        self._head_since: float | None = None
        self._body_since: float | None = None
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
        if self._body_since is not None and self.flow.read_paused:
            self._body_since = now  # it is we who do not read
        limits = self._all.limits
        if now - self._unsent_since >= limits.write_seconds:
            return f"nothing was read from them for {limits.write_seconds:g} s"
        if self._head_since is not None and now - self._head_since >= limits.head_seconds:
            return f"no whole head came within {limits.head_seconds:g} s"
        grace = 0.0 if self.cycle is None or self.cycle.response_complete else GRACE_SECONDS
        if self._body_since is not None and now - self._body_since >= limits.body_seconds + grace:
            return f"no whole body came within {limits.body_seconds:g} s"
        return ""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Whatever the socket does not take holds up who writes.
        transport.set_write_buffer_limits(high=0)
        self._head_since = self._all.clock()
        if not self._all.add(self, self.client[0] if self.client else ""):
            transport.write(_BUSY)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._all.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        if self._head_since is None and self._body_since is None and not answering:
            self._head_since = self._all.clock()
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._head_since = None
        self._body_since = self._all.clock()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._body_since = None
        super().on_message_complete()


def _counted_as(host: str, exempt: tuple[Network, ...]) -> str:
    """By what its connections are counted; "" if they are not."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            home = ipaddress.ip_network((address, _HOME_BITS), strict=False)
            return "" if any(address in network for network in exempt) else str(home)
        address = address.ipv4_mapped
    return "" if any(address in network for network in exempt) else str(address)
