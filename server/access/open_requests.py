"""Open requests and their principals. When a credential expires or is revoked, its open streams end, too."""

import logging
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layerlore.server.access.credentials import Credentials, Principal
from layerlore.server.access.protocol_errors import challenge_unauthorized
from layerlore.server.process.shutdown import Episodes
from layerlore.storage.core.errors import StorageUnavailable

log = logging.getLogger(__name__)

AGAIN_SECONDS = 2.0
"""The credential of an open request is checked again at this interval."""
LEAVING_SECONDS = 0.5
"""An app that has not noticed after this time that its client is gone is cancelled."""
LAST_WORD_SECONDS = 1.0
"""The end of a response may take this long, since its client may not be reading."""
CHECKED_AT_ONCE = 8


class _Open:
    """An open request. It ends as if its client had hung up, which every app can handle."""

    __slots__ = ("_receive", "_receiving", "answering", "ended", "principal", "token")

    def __init__(self, token: str, principal: Principal, receive: Receive) -> None:
        self.token = token
        self.principal = principal
        self.answering = anyio.CancelScope()
        self.ended = False
        self._receive = receive
        self._receiving: anyio.CancelScope | None = None

    async def receive(self) -> Message:
        if not self.ended:
            with anyio.CancelScope() as self._receiving:
                return await self._receive()
        return {"type": "http.disconnect"}

    def end(self) -> None:
        if self.ended:
            return
        self.ended = True
        # A deadline instead of a cancellation gives an app that handles the hang-up time to clean up.
        self.answering.deadline = anyio.current_time() + LEAVING_SECONDS
        if self._receiving is not None:
            self._receiving.cancel()


class OpenRequests:
    """Serves requests, and ends them when their token no longer has the same principal. ``watch`` must run for that.

    While a token cannot be checked, its requests stay open until the credential expires.
    """

    def __init__(self, credentials: Credentials, again_seconds: float = AGAIN_SECONDS) -> None:
        self._credentials = credentials
        self._again_seconds = again_seconds
        self._open: set[_Open] = set()

    async def serve(
        self,
        token: str,
        principal: Principal,
        app: ASGIApp,
        scope: Scope,
        receive: Receive,
        send: Send,
        metadata_url: str = "",
    ) -> None:
        """Let ``app`` answer. If the credential ends meanwhile, a response that has begun is closed; otherwise the answer is
        401, which names ``metadata_url``."""
        begun = complete = False

        async def sent(message: Message) -> None:
            nonlocal begun, complete
            # Set after the send, since a response whose first message failed has not begun.
            await send(message)
            begun = True
            complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        request = _Open(token, principal, receive)
        self._open.add(request)
        try:
            with request.answering:
                await app(scope, request.receive, sent)
        finally:
            self._open.discard(request)
        if not request.ended or complete:
            return
        # The client may be gone or may not read, and must not keep this task forever.
        with anyio.move_on_after(LAST_WORD_SECONDS):
            if begun:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await challenge_unauthorized(metadata_url, sent=True)(scope, receive, send)

    async def watch(self) -> None:
        """Check every token again at intervals, until cancelled. Raises nothing."""
        while True:
            await anyio.sleep(self._again_seconds)
            limiter = anyio.CapacityLimiter(CHECKED_AT_ONCE)
            async with anyio.create_task_group() as checks:
                # A set, since many open requests may share a token, which needs one check.
                for token in {request.token for request in self._open}:
                    checks.start_soon(self._check, token, limiter)

    async def _check(self, token: str, limiter: anyio.CapacityLimiter) -> None:
        # If the check itself fails, the requests continue until their known expiry.
        found, now = True, None
        async with limiter:
            try:
                now = await self._credentials.principal(token)
            except StorageUnavailable:
                found = False
            except Exception as error:  # noqa: BLE001 - its text may repeat the token
                log.error("a credential could not be checked again: %s", type(error).__name__)
                found = False
        for request in list(self._open):
            if found:
                over = request.principal != now
            else:
                over = _expired(request.principal)
            if request.token == token and over:
                request.end()


def _expired(principal: Principal) -> bool:
    return principal.expires_at is not None and principal.expires_at <= time.time() * 1000


CONNECTION = "layerlore.connection"
"""The key in an ASGI scope of the request's Connection."""
ANSWER = "layerlore.answer"
"""The key in an ASGI scope of the request's PendingAnswer."""


class Connection(Protocol):
    """A connection that the server writes to."""

    @property
    def unsent(self) -> int:
        """The bytes written that the socket has not taken yet; 0 once the connection is gone."""

    async def wait_sent(self) -> None:
        """Wait until no bytes are unsent."""

    def abort(self) -> None:
        """Close the connection and drop unsent bytes."""


class PendingAnswer:
    """The answer to one request. It is over when its client has received it or is gone, or if there will be none."""

    def __init__(self) -> None:
        self._afterwards: list[Callable[[], None]] = []
        self._over = False

    def call_afterwards(self, act: Callable[[], None]) -> None:
        """Call ``act`` when the answer is over; at once if it is over already."""
        if self._over:
            act()
        else:
            self._afterwards.append(act)

    def finish(self) -> None:
        """Mark the answer as over, and make the waiting calls."""
        self._over = True
        # Popped one by one, since a call may raise and none may run twice.
        while self._afterwards:
            self._afterwards.pop()()


def call_when_received(request: Any, act: Callable[[], None]) -> None:
    """Call ``act`` when the answer to an HTTP request is over; at once for other requests."""
    if request is None:
        answer = None
    else:
        answer = request.scope.get(ANSWER)
    if answer is None:
        act()
    else:
        answer.call_afterwards(act)


class UnsentLimits:
    """The most unsent bytes of a credential and of a tenant (0: no limit). Beyond a limit the connection that has waited
    longest is closed; a single answer of any size may wait alone."""

    def __init__(self, *, of_principal: int = 0, of_tenant: int = 0) -> None:
        self._of_principal = of_principal
        self._of_tenant = of_tenant
        # Tenant -> number -> name and connection, in the order in which they began to wait.
        self._waiting: dict[str, dict[int, tuple[str, Connection]]] = {}
        self._numbers = count()
        self._episodes = Episodes()

    async def wait_sent(self, principal: Principal, connection: Connection | None) -> None:
        """Wait until everything written to a connection was sent, or the connection is gone."""
        if connection is None or not connection.unsent:
            return
        waiting = self._waiting.setdefault(principal.tenant, {})
        number = next(self._numbers)
        waiting[number] = (principal.name, connection)
        try:
            # Its own limit comes first, so that a principal beyond it costs no other principal of the tenant a connection.
            own = [each for name, each in waiting.values() if name == principal.name]
            self._hold(principal, own, self._of_principal, "it")
            self._hold(principal, [each for _, each in waiting.values()], self._of_tenant, "its tenant")
            await connection.wait_sent()
        finally:
            del waiting[number]
            # A later request of the tenant may have begun a new dictionary under the same name.
            if not waiting and self._waiting.get(principal.tenant) is waiting:
                del self._waiting[principal.tenant]

    def _hold(self, principal: Principal, connections: list[Connection], most: int, whose: str) -> None:
        if not most:
            return
        distinct = list(dict.fromkeys(connections))  # one connection may carry several requests
        size = sum(each.unsent for each in distinct)
        while size > most and len(distinct) > 1:
            longest = distinct.pop(0)
            size -= longest.unsent
            # A normal close would wait for the client to read what is unsent.
            longest.abort()
            if self._episodes.begins(principal.tenant):
                log.warning(
                    "%s of tenant %r reads no answers: more than %s bytes wait for %s, and its connections are closed",
                    principal.name,
                    principal.tenant,
                    f"{most:,}",
                    whose,
                )
