"""The connections of a server: their number, the size of a request's head, and the time that a client may take.

All this comes before any credential is checked: a client that connects and sends nothing, or a byte now and then, would
use a descriptor and some memory for as long as it liked.

uvicorn leaves the white space behind a header's value, which is not a part of it (RFC 9110, 5.5), so that `Mcp-Name:
plan ` named another tool than the body. It also puts no limit on a head, while its parser joins a header piece by
piece: one of 40 MB kept the whole server busy for seconds.
"""

import contextlib
import ipaddress
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from layerlore.server.access.open_requests import CONNECTION
from layerlore.server.process.standard_streams import Episodes

MAX_HEAD_BYTES = 64 * 1024
"""The most bytes that may arrive without completing a head or continuing a body; the bytes of one read always pass."""

_STATUS = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
_REFUSAL = (
    f"HTTP/1.1 {_STATUS.value} {_STATUS.phrase}\r\n"
    "content-type: text/plain; charset=utf-8\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
).encode()


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol, which answers 431 and hangs up if a head, or the trailer of a chunked body, is too long. It also
    strips the white space around values."""

    _waiting = 0
    _progressed = False

    def data_received(self, data: bytes) -> None:
        self._progressed = False
        super().data_received(data)
        self._waiting = 0 if self._progressed else self._waiting + len(data)
        if self._waiting > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_REFUSAL)
            self.transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        self._progressed = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._progressed = True
        super().on_body(body)


log = logging.getLogger(__name__)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

THIS_MACHINE: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
KEPT_FILES = 256
"""Files that are kept for other uses than connections: the database, its journal, the log."""
GRACE_SECONDS = 5.0
"""Seconds beyond the reader's own time for a body, in which the reader can still answer that it took too long."""

_CHECKS = 4  # within the shortest of the times
_CHECK_SECONDS = 1.0
_HOME_BITS = 64  # the network of one customer, for IPv6
_STATUS = HTTPStatus.SERVICE_UNAVAILABLE
_BUSY = (
    f"HTTP/1.1 {_STATUS.value} {_STATUS.phrase}\r\ncontent-length: 0\r\nretry-after: 5\r\nconnection: close\r\n\r\n"
).encode()


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How long a client may take, in seconds, and how many connections may be open.

    ``head_seconds``: for a whole head, from connecting, or from the first byte after an answer. ``body_seconds``: for a
    whole body. ``write_seconds``: without reading anything of its answer. ``most``: connections in all.
    ``most_of_address``: from one IPv4 address or one IPv6 network of 64 bits, unless it is ``exempt``.
    """

    head_seconds: float = 30.0
    body_seconds: float = 30.0
    write_seconds: float = 60.0
    most: int = 4096
    most_of_address: int = 512
    exempt: tuple[Network, ...] = THIS_MACHINE


class Connections:
    """All open connections. ``close_overdue`` must be called regularly. ``files``: how many this process may have open.
    ``clock`` returns seconds that never go back."""

    def __init__(
        self, limits: ConnectionLimits, *, files: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits
        self.clock = clock
        # At least half of the files go to connections where a process may open only few.
        self._most = limits.most if files is None else min(limits.most, max(files - KEPT_FILES, files // 2))
        if self._most < limits.most:
            log.warning("%s connections at most: this process may open %s files", f"{self._most:,}", f"{files:,}")
        self._open: dict[HttpConnection, str] = {}
        self._of_address: Counter[str] = Counter()
        self._episodes = Episodes(clock)
        shortest = min(limits.head_seconds, limits.body_seconds, limits.write_seconds)
        # A check must come several times within the shortest limit, or that limit would not be kept.
        self._every = min(_CHECK_SECONDS, shortest / _CHECKS)
        self._next_check = 0.0

    def protocol(self, **given: Any) -> "HttpConnection":
        """Make a protocol for a new connection, as uvicorn does."""
        return HttpConnection(self, **given)

    def add(self, connection: "HttpConnection", host: str) -> bool:
        """Count a connection from that address. Returns whether there is room for it."""
        address = _counted_address(host, self.limits.exempt)
        if len(self._open) >= self._most:
            self._warn("", "connections are refused: %s are open, the limit (http.max_connections)", self._most)
            return False
        if address and self._of_address[address] >= self.limits.most_of_address:
            text = "connections of %s are refused: %s are open (http.max_connections_per_address)"
            self._warn(address, text, address, self.limits.most_of_address)
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

    def close_overdue(self) -> None:
        """Close the connections whose time is over, if a check is due."""
        now = self.clock()
        if now < self._next_check:
            return
        self._next_check = now + self._every
        for connection in list(self._open):
            if why := connection.overdue(now):
                if self._episodes.begins(why):
                    log.info("connections are closed: %s", why)
                connection.abort()

    def _warn(self, episode: str, text: str, *values: Any) -> None:
        if self._episodes.begins(episode):
            log.warning(text, *values)


class HttpConnection(BoundedHeads):
    """uvicorn's protocol, which also tracks what it waits for and how much its client has not read."""

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
        """The bytes written that the socket has not taken yet; 0 once the connection is gone."""
        if self._gone:
            return 0
        return self.transport.get_write_buffer_size()

    async def wait_sent(self) -> None:
        """Wait until no bytes are unsent."""
        await self.flow.drain()

    def abort(self) -> None:
        """Close the connection and drop unsent bytes."""
        self._gone = True
        self.transport.abort()

    def overdue(self, now: float) -> str:
        """Why the connection must be closed; "" if it need not be."""
        before, self._unsent = self._unsent, self.unsent
        # Any progress, also the first bytes of a new answer, begins the time anew.
        if not self._unsent or self._unsent < before or not before:
            self._unsent_since = now
        if self._body_since is not None and self.flow.read_paused:
            self._body_since = now  # the server is not reading
        limits = self._all.limits
        if now - self._unsent_since >= limits.write_seconds:
            return f"nothing was read from them for {limits.write_seconds:g} s"
        if self._head_since is not None and now - self._head_since >= limits.head_seconds:
            return f"no whole head arrived within {limits.head_seconds:g} s"
        # While an answer is being made, its reader reports a late body itself and gets time to do so.
        if self.cycle is None or self.cycle.response_complete:
            grace = 0.0
        else:
            grace = GRACE_SECONDS
        if self._body_since is not None and now - self._body_since >= limits.body_seconds + grace:
            return f"no whole body arrived within {limits.body_seconds:g} s"
        return ""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Block a writer as soon as the socket takes no more.
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
        # After an answer, the time for the next head begins with its first byte, so an idle connection stays open.
        if self._head_since is None and self._body_since is None and not answering:
            self._head_since = self._all.clock()
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        # Endpoints find the connection here, to wait until an answer was sent.
        self.scope[CONNECTION] = self  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._head_since = None
        self._body_since = self._all.clock()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._body_since = None
        super().on_message_complete()


def _counted_address(host: str, exempt: tuple[Network, ...]) -> str:
    """The address or network that connections of a host are counted by; "" if they are not counted."""
    try:
        # A link-local address may name its interface behind a percent sign.
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            # One customer has a whole IPv6 network of 64 bits, and could use a new address for each connection.
            home = ipaddress.ip_network((address, _HOME_BITS), strict=False)
            if any(address in network for network in exempt):
                return ""
            return str(home)
        address = address.ipv4_mapped
    if any(address in network for network in exempt):
        return ""
    return str(address)


if sys.platform != "win32":
    import resource

_TRIED = (1_048_576, 65_536, 10_240)
"""Limits to try if there is no hard limit, since the kernel has one of its own."""


def raise_open_files() -> int | None:
    """Raise the limit of open files as far as allowed. Returns it; None: no limit exists, or it is unknown."""
    if sys.platform == "win32":
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (hard, resource.RLIM_INFINITY):
        if soft == resource.RLIM_INFINITY:
            return None
        return soft
    # The hard limit may be infinite, which some kernels refuse for files.
    for most in (hard, *(each for each in _TRIED if each > soft)):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            break
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    return soft
