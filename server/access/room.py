"""How much of a tenant may be open at a time, so that the others have room: bodies on their way, streams, sessions."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

from layerlore.server.access.too_much import TooMuch

MOST_READING_BYTES = 16 * 1024 * 1024
"""Of bodies of one tenant that have not arrived as a whole; one of any size is read."""
UNTOLD_BYTES = 1024 * 1024
"""What a body counts as that does not tell its size before."""
BODY_SECONDS = 1.0
STREAM_SECONDS = 5.0
"""When to try again."""


class Room:
    """``streams`` are how many a tenant may have open, ``sessions`` how many of the older protocol, of which it has
    ``sessions_of`` (0: any number)."""

    def __init__(
        self, *, streams: int = 0, sessions: int = 0, sessions_of: Callable[[str], int] = lambda tenant: 0
    ) -> None:
        self._most_streams = streams
        self._most_sessions = sessions
        self._sessions_of = sessions_of
        self._streams: Counter[str] = Counter()
        self._beginning: Counter[str] = Counter()
        self._reading: Counter[str] = Counter()

    @contextmanager
    def taken(self, tenant: str, scope: Scope, receive: Receive, send: Send) -> Iterator[tuple[Receive, Send]]:
        """While a request is answered: a GET may stay open, a POST may wait for its body. Raises TooMuch."""
        with self._session(tenant, scope, send) as sent:
            if scope["method"] == "POST":
                with self._body(tenant, told_length(scope) or UNTOLD_BYTES, receive) as received:
                    yield received, sent
            else:
                with self._stream(tenant):
                    yield receive, sent

    @contextmanager
    def _session(self, tenant: str, scope: Scope, send: Send) -> Iterator[Send]:
        """Until the answer begins: then the session is there and counted, or there will be none."""
        if not self._most_sessions or not _begins_session(scope):
            yield send
            return
        # A session that was refused inside the protocol would stay open.
        if self._sessions_of(tenant) + self._beginning[tenant] >= self._most_sessions:
            raise TooMuch("open sessions", f"{self._most_sessions:,} of a tenant are allowed", STREAM_SECONDS)
        left = 1
        self._beginning[tenant] += 1

        async def sent(message: Message) -> None:
            nonlocal left
            _lessen(self._beginning, tenant, left)
            left = 0
            await send(message)

        try:
            yield sent
        finally:
            _lessen(self._beginning, tenant, left)

    @contextmanager
    def _stream(self, tenant: str) -> Iterator[None]:
        if self._streams[tenant] >= self._most_streams > 0:
            raise TooMuch("open streams", f"{self._most_streams:,} of a tenant are allowed", STREAM_SECONDS)
        self._streams[tenant] += 1
        try:
            yield
        finally:
            _lessen(self._streams, tenant, 1)

    @contextmanager
    def _body(self, tenant: str, size: int, receive: Receive) -> Iterator[Receive]:
        """Until all of it has arrived."""
        if self._reading[tenant] and self._reading[tenant] + size > MOST_READING_BYTES:
            allowed = f"{MOST_READING_BYTES:,} bytes of a tenant are allowed"
            raise TooMuch("bodies that are on their way", allowed, BODY_SECONDS)
        left = size
        self._reading[tenant] += size

        async def received() -> Message:
            nonlocal left
            message = await receive()
            if not message.get("more_body", False):
                _lessen(self._reading, tenant, left)
                left = 0
            return message

        try:
            yield received
        finally:
            _lessen(self._reading, tenant, left)


def told_length(scope: Scope) -> int:
    """The bytes of a body as its sender tells them; 0 if it does not."""
    told: bytes = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(told) if told.isdigit() else 0


def _begins_session(scope: Scope) -> bool:
    """Whether a request is one to Streamable HTTP that names neither a session nor a protocol without sessions."""
    sent = dict(scope["headers"])
    modern = sent.get(b"mcp-protocol-version", b"").decode("latin-1") in MODERN_PROTOCOL_VERSIONS
    return scope.get("path", "").rstrip("/") == "/mcp" and not modern and b"mcp-session-id" not in sent


def _lessen(counts: Counter[str], tenant: str, by: int) -> None:
    counts[tenant] -= by
    if not counts[tenant]:
        del counts[tenant]
