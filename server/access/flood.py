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
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layerlore.server.access.answers import ANSWER, CONNECTION, Answer, Unsent
from layerlore.server.access.credentials import PRINCIPAL_CLAIM, Credentials
from layerlore.server.access.gate import Gate, Gated
from layerlore.server.access.principal import Principal
from layerlore.server.access.room import Room, told_length
from layerlore.server.access.throttle import Throttle
from layerlore.server.access.too_much import TooMuch, refusal

HELD_SECONDS = (1.0, 3.0)
"""Between these, by chance, so that those who came together do not go on together."""
MOST_ANSWERED = 64
"""Requests of one tenant that wait here and are then answered inside the protocol."""
MOST_HELD = 1000
"""Requests of one tenant that wait here at all."""
UNREAD = (400, 408, 413, 415)
"""The HTTP statuses of what is no message, or none that is served."""


class Flood:
    """Asks ``throttle`` who is beyond a limit, ``room`` for what may stay open, and ``unsent`` for what may wait to be
    read. ``chance`` gives numbers from 0 to 1."""

    def __init__(
        self,
        throttle: Throttle,
        room: Room,
        chance: Callable[[], float] = random.random,
        *,
        unsent: Unsent | None = None,
    ) -> None:
        self._throttle = throttle
        self._room = room
        self._chance = chance
        self._unsent = unsent or Unsent()
        self._held: Counter[str] = Counter()

    def around(self, app: ASGIApp) -> ASGIApp:
        """``app`` stands behind a gate: every request has its principal."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            principal: Principal = scope["user"].access_token.claims[PRINCIPAL_CLAIM]
            if principal.local:
                await app(scope, receive, send)
                return
            if scope["method"] == "POST":
                send = self._counting(principal, told_length(scope), send)
            try:
                await self._hold(principal, scope)
                if scope["method"] != "POST":
                    self._throttle.count(principal, 0)
                with self._room.taken(principal.tenant, scope, receive, send) as (received, sent):
                    await self._answered(principal, app, scope, received, sent)
            except TooMuch as refused:
                await _too_many(refused)(scope, receive, send)

        return guarded

    async def _answered(self, principal: Principal, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let ``app`` answer, until the answer is taken."""
        connection, answer = scope.get(CONNECTION), Answer()

        async def sent(message: Message) -> None:
            await send(message)
            if message.get("more_body", False):
                await self._unsent.taken(principal, connection)

        scope[ANSWER] = answer
        try:
            await app(scope, receive, sent)
            # Not inside: an app takes its last piece for the end, and would be cancelled by it.
            await self._unsent.taken(principal, connection)
        finally:
            answer.over()

    def _counting(self, principal: Principal, size: int, send: Send) -> Send:
        """The same, and what is refused unread counts, too: the limits inside the protocol never hear of it."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in UNREAD:
                self._throttle.count(principal, size)
            await send(message)

        return counted

    async def _hold(self, principal: Principal, scope: Scope) -> None:
        """Wait, if the principal is beyond a limit. Raises TooMuch, unless the request may go on."""
        refused = self._throttle.beyond(principal, told_length(scope), _method(scope))
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
    """A gate that holds floods back, once it knows whose they are."""

    def __init__(self, credentials: Credentials, flood: Flood, **options: Any) -> None:
        super().__init__(credentials, **options)
        self._flood = flood

    def around(self, app: ASGIApp) -> Gated:
        return super().around(self._flood.around(app))


def _method(scope: Scope) -> str:
    """The request's, if its head tells: one whose body is for another is refused, and counts."""
    if scope["method"] != "POST":
        return str(scope["method"])
    told: bytes = next((value for name, value in scope["headers"] if name == b"mcp-method"), b"")
    return told.decode("latin-1").strip()


def _too_many(refused: TooMuch) -> JSONResponse:
    """With an error of the protocol as its body, which has no id, as that of a request that was not read."""
    body = {"jsonrpc": "2.0", "id": None, "error": refusal(refused).model_dump(mode="json", exclude_none=True)}
    headers = {"Retry-After": str(math.ceil(refused.retry_after)), "Connection": "close"}
    return JSONResponse(body, status_code=429, headers=headers)
