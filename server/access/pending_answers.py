"""Answers that their clients have not received yet: a call counts until its client has received the answer, and the bytes
that wait are limited.

Otherwise a client that sends requests and reads nothing would make the server keep one answer after another: a call would
end when its answer is made, and the next one could begin.
"""

import logging
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from layerlore.server.access.principal import Principal
from layerlore.server.process.episodes import Episodes

log = logging.getLogger(__name__)

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
        """Call ``act`` when the answer is over; at once if it is."""
        if self._over:
            act()
        else:
            self._afterwards.append(act)

    def finish(self) -> None:
        """Mark the answer as over, and make the calls that wait for it."""
        self._over = True
        while self._afterwards:
            self._afterwards.pop()()


def call_when_received(request: Any, act: Callable[[], None]) -> None:
    """Call ``act`` when the answer to a request over HTTP is over; at once for other requests."""
    answer = None if request is None else request.scope.get(ANSWER)
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
            # Its own first: who is beyond its own limit takes no connection from others of the tenant.
            own = [each for name, each in waiting.values() if name == principal.name]
            self._hold(principal, own, self._of_principal, "it")
            self._hold(principal, [each for _, each in waiting.values()], self._of_tenant, "its tenant")
            await connection.wait_sent()
        finally:
            del waiting[number]
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
            longest.abort()
            if self._episodes.begins(principal.tenant):
                log.warning(
                    "%s of tenant %r reads no answers: more than %s bytes wait for %s, and its connections are closed",
                    principal.name,
                    principal.tenant,
                    f"{most:,}",
                    whose,
                )
