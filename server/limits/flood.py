"""The brake on callers that keep exceeding their limits, so that they do not take the server's time from others.

A refusal inside the protocol costs about as much as a small call: a body to read, JSON, an answer. A client that sends the
next request as soon as the last was refused would keep a core busy. So a caller beyond a limit waits for a few seconds
before anything is read, which slows down a client that waits for its answers, as agents do, to almost nothing. If very
many requests wait, only some are answered inside the protocol, the others with HTTP 429.
"""

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layerlore.server.access.credentials import PRINCIPAL_CLAIM, Credentials
from layerlore.server.access.gate import Gate, GatedApp
from layerlore.server.access.pending_answers import ANSWER, CONNECTION, PendingAnswer, UnsentLimits
from layerlore.server.access.principal import Principal
from layerlore.server.limits.refusal import TooMuch, refusal_error
from layerlore.server.limits.room import Room, content_length
from layerlore.server.limits.throttle import Throttle

HELD_SECONDS = (1.0, 3.0)
"""The shortest and the longest wait; chance decides, so that requests that came together do not go on together."""
MOST_ANSWERED = 64
"""The most requests of one tenant that are answered inside the protocol after they waited."""
MOST_HELD = 1000
"""The most requests of one tenant that wait at all."""
UNREAD = (400, 408, 413, 415)
"""The HTTP statuses of requests that are no valid message, or are refused unread."""


class Flood:
    """Holds back requests beyond the limits of ``throttle``, ``room`` (what may stay open) and ``unsent`` (what may wait to be
    read). ``chance`` returns numbers from 0 to 1."""

    def __init__(
        self,
        throttle: Throttle,
        room: Room,
        chance: Callable[[], float] = random.random,
        *,
        unsent: UnsentLimits | None = None,
    ) -> None:
        self._throttle = throttle
        self._room = room
        self._chance = chance
        self._unsent = unsent or UnsentLimits()
        self._held: Counter[str] = Counter()

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Hold back requests to ``app``, which stands behind a gate: every request has its principal."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            principal: Principal = scope["user"].access_token.claims[PRINCIPAL_CLAIM]
            if principal.local:
                await app(scope, receive, send)
                return
            if scope["method"] == "POST":
                send = self._charge_unread(principal, content_length(scope), send)
            try:
                await self._hold(principal, scope)
                if scope["method"] != "POST":
                    self._throttle.count(principal, 0)
                with self._room.take(principal.tenant, scope, receive, send) as (received, sent):
                    await self._answer(principal, app, scope, received, sent)
            except TooMuch as refused:
                await _too_many(refused)(scope, receive, send)

        return guarded

    async def _answer(self, principal: Principal, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let ``app`` answer, and wait until the client has received the answer."""
        connection, answer = scope.get(CONNECTION), PendingAnswer()

        async def sent(message: Message) -> None:
            await send(message)
            if message.get("more_body", False):
                await self._unsent.wait_sent(principal, connection)

        scope[ANSWER] = answer
        try:
            await app(scope, receive, sent)
            # Wait here and not in ``sent``: after its last piece an app counts as finished, and would be cancelled.
            await self._unsent.wait_sent(principal, connection)
        finally:
            answer.finish()

    def _charge_unread(self, principal: Principal, size: int, send: Send) -> Send:
        """Wrap ``send`` so that requests that are refused unread count, too: the throttle never sees them."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in UNREAD:
                self._throttle.count(principal, size)
            await send(message)

        return counted

    async def _hold(self, principal: Principal, scope: Scope) -> None:
        """Wait if the principal is beyond a limit. Raises TooMuch if too many requests of the tenant wait."""
        refused = self._throttle.find_excess(principal, content_length(scope), _method(scope))
        if refused is None:
            return
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
        if before >= MOST_ANSWERED:
            raise refused


class PatientGate(Gate):
    """A gate that holds floods back once it knows their principal."""

    def __init__(self, credentials: Credentials, flood: Flood, **options: Any) -> None:
        super().__init__(credentials, **options)
        self._flood = flood

    def wrap(self, app: ASGIApp) -> GatedApp:
        return super().wrap(self._flood.wrap(app))


def _method(scope: Scope) -> str:
    """The method that the request's head names. A request whose body names another one is refused, and counts."""
    if scope["method"] != "POST":
        return str(scope["method"])
    named: bytes = next((value for name, value in scope["headers"] if name == b"mcp-method"), b"")
    return named.decode("latin-1").strip()


def _too_many(refused: TooMuch) -> JSONResponse:
    """The answer 429, with an error of the protocol as its body; it has no id, since the request was not read."""
    body = {"jsonrpc": "2.0", "id": None, "error": refusal_error(refused).model_dump(mode="json", exclude_none=True)}
    headers = {"Retry-After": str(math.ceil(refused.retry_after)), "Connection": "close"}
    return JSONResponse(body, status_code=429, headers=headers)
