"""Keeps a caller that goes on beyond its limits from taking the server's time from others.

A refusal inside the protocol costs about as much as a call that does little: a body to read, JSON, an answer. Who sends
the next request as soon as the last was refused would keep a core busy with nothing else. So whoever is beyond a limit
is let wait for a few seconds first, before anything is read; a client that waits for its answers, as agents do, is slowed
down by that to next to nothing. Of very many at once only some are answered inside the protocol, the others with HTTP
429.
"""

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memstrata.server.access.credentials import PRINCIPAL_CLAIM, Credentials
from memstrata.server.access.gate import Gate, Gated
from memstrata.server.access.principal import Principal
from memstrata.server.access.throttle import Throttle
from memstrata.server.access.too_much import TooMuch, refusal

HELD_SECONDS = (1.0, 3.0)
"""Between these, by chance, so that those who came together do not go on together."""
MOST_ANSWERED = 64
"""Requests of one tenant that wait here and are then answered inside the protocol."""
MOST_HELD = 1000
"""Requests of one tenant that wait here at all."""
MOST_READING_BYTES = 16 * 1024 * 1024
"""Of bodies of one tenant that have not arrived as a whole; one of any size is read."""
UNTOLD_BYTES = 1024 * 1024
"""What a body counts as that does not tell its size before."""
BODY_SECONDS = 1.0
_BODIES = "bodies that are on their way"
STREAM_SECONDS = 5.0
"""When to try again who has too many streams open."""
_STREAMS = "open streams"
UNREAD = (400, 408, 413, 415)
"""The HTTP statuses of what is no message, or none that is served."""


class Flood:
    """Asks ``throttle`` who is beyond a limit. ``chance`` gives numbers from 0 to 1, ``most_streams`` how many streams a
    tenant may have open, ``most_sessions`` how many sessions of the older protocol, of which it has ``sessions_of`` (0:
    any number)."""

    def __init__(
        self,
        throttle: Throttle,
        chance: Callable[[], float] = random.random,
        *,
        most_streams: int = 0,
        most_sessions: int = 0,
        sessions_of: Callable[[str], int] = lambda tenant: 0,
    ) -> None:
        self._throttle = throttle
        self._chance = chance
        self._most_streams = most_streams
        self._most_sessions = most_sessions
        self._sessions_of = sessions_of
        self._held: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._reading: Counter[str] = Counter()

    def around(self, app: ASGIApp) -> ASGIApp:
        """``app`` stands behind a gate: every request has its principal."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            principal: Principal = scope["user"].access_token.claims[PRINCIPAL_CLAIM]
            if principal.local:
                await app(scope, receive, send)
                return
            refused = await self._hold(principal, scope) or self._no_session(principal, scope)
            if refused is not None:
                await _too_many(refused)(scope, receive, send)
            elif scope["method"] == "POST":
                await self._body(principal, app, scope, receive, self._counting(principal, _length(scope), send))
            else:
                self._throttle.count(principal, 0)
                await self._stream(principal, app, scope, receive, send)

        return guarded

    def _no_session(self, principal: Principal, scope: Scope) -> TooMuch | None:
        """The refusal of one session more than a tenant may have. A session that was refused inside the protocol would
        stay open."""
        if not self._most_sessions or not _begins_session(scope):
            return None
        if self._sessions_of(principal.tenant) < self._most_sessions:
            return None
        return TooMuch("open sessions", f"{self._most_sessions:,} of a tenant are allowed", STREAM_SECONDS)

    async def _body(self, principal: Principal, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """A request with a body, which its sender may keep waiting for: a tenant has so many bytes of them at a time."""
        size, tenant = _length(scope) or UNTOLD_BYTES, principal.tenant
        if self._reading[tenant] and self._reading[tenant] + size > MOST_READING_BYTES:
            told = TooMuch(_BODIES, f"{MOST_READING_BYTES:,} bytes of a tenant are allowed", BODY_SECONDS)
            await _too_many(told)(scope, receive, send)
            return
        left = size
        self._reading[tenant] += size

        def whole() -> None:
            nonlocal left
            self._reading[tenant] -= left
            left = 0
            if not self._reading[tenant]:
                del self._reading[tenant]

        async def received() -> Message:
            message = await receive()
            if left and not message.get("more_body", False):
                whole()
            return message

        try:
            await app(scope, received, send)
        finally:
            if left:
                whole()

    async def _stream(self, principal: Principal, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that may stay open: a tenant has so many at a time."""
        if self._streams[principal.tenant] >= self._most_streams > 0:
            told = TooMuch(_STREAMS, f"{self._most_streams:,} of a tenant are allowed", STREAM_SECONDS)
            await _too_many(told)(scope, receive, send)
            return
        self._streams[principal.tenant] += 1
        try:
            await app(scope, receive, send)
        finally:
            self._streams[principal.tenant] -= 1
            if not self._streams[principal.tenant]:
                del self._streams[principal.tenant]

    def _counting(self, principal: Principal, size: int, send: Send) -> Send:
        """The same, and what is refused unread counts, too: the limits inside the protocol never hear of it."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in UNREAD:
                self._throttle.count(principal, size)
            await send(message)

        return counted

    async def _hold(self, principal: Principal, scope: Scope) -> TooMuch | None:
        """Wait, if the principal is beyond a limit. Returns the refusal, unless the request may go on."""
        refused = self._throttle.beyond(principal, _length(scope))
        if refused is None:
            return None
        before = self._held[principal.tenant]
        if before < MOST_HELD:
            least, most = HELD_SECONDS
            self._held[principal.tenant] += 1
            try:
                await anyio.sleep(least + (most - least) * self._chance())
            finally:
                self._held[principal.tenant] -= 1
                if not self._held[principal.tenant]:
                    del self._held[principal.tenant]
        return None if before < MOST_ANSWERED else refused


class PatientGate(Gate):
    """A gate that holds floods back, once it knows whose they are."""

    def __init__(self, credentials: Credentials, flood: Flood, **options: Any) -> None:
        super().__init__(credentials, **options)
        self._flood = flood

    def around(self, app: ASGIApp) -> Gated:
        return super().around(self._flood.around(app))


def _begins_session(scope: Scope) -> bool:
    """Whether a request is one to Streamable HTTP that names neither a session nor a protocol without sessions."""
    sent = dict(scope["headers"])
    modern = sent.get(b"mcp-protocol-version", b"").decode("latin-1") in MODERN_PROTOCOL_VERSIONS
    return scope.get("path", "").rstrip("/") == "/mcp" and not modern and b"mcp-session-id" not in sent


def _length(scope: Scope) -> int:
    told: bytes = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(told) if told.isdigit() else 0


def _too_many(refused: TooMuch) -> JSONResponse:
    """With an error of the protocol as its body, which has no id, as that of a request that was not read."""
    body = {"jsonrpc": "2.0", "id": None, "error": refusal(refused).model_dump(mode="json", exclude_none=True)}
    headers = {"Retry-After": str(math.ceil(refused.retry_after)), "Connection": "close"}
    return JSONResponse(body, status_code=429, headers=headers)
