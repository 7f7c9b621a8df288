"""What is answered and not taken yet: a call runs until its client has taken the answer, and what waits has a bound.

A client that sends requests and does not read would otherwise have one answer after the other kept for it: the call is
over once its answer is made, and the next one may begin.
"""

import logging
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

from layerlore.server.access.principal import Principal
from layerlore.server.episodes import Episodes

log = logging.getLogger(__name__)

CONNECTION = "layerlore.connection"
"""Of an ASGI scope: the connection that a request came by, a Connection."""
ANSWER = "layerlore.answer"
"""Of an ASGI scope: the Answer to the request."""


class Connection(Protocol):
    """What the server writes to."""

    @property
    def unsent(self) -> int:
        """The bytes that were written and that the socket has not taken; 0 once the connection is gone."""

    async def taken(self) -> None:
        """Wait until there are none."""

    def abort(self) -> None:
        """Close it, and drop what was not sent."""


class Answer:
    """Of one request: is over when its client has taken it, or is gone, or there will be none."""

    def __init__(self) -> None:
        self._afterwards: list[Callable[[], None]] = []
        self._over = False

    def afterwards(self, act: Callable[[], None]) -> None:
        """Act when it is over; at once, if it is."""
        if self._over:
            act()
        else:
            self._afterwards.append(act)

    def over(self) -> None:
        self._over = True
        while self._afterwards:
            self._afterwards.pop()()


def when_taken(request: Any, act: Callable[[], None]) -> None:
    """Act when the answer to a request over HTTP is over; at once for others."""
    answer = None if request is None else request.scope.get(ANSWER)
    if answer is None:
        act()
    else:
        answer.afterwards(act)


class Unsent:
    """Holds what is written and not taken to a budget, in bytes, of a credential and of a tenant (0: none). Beyond it, the
    connection that has waited longest is closed; one answer of any size may wait alone."""

    def __init__(self, *, of_principal: int = 0, of_tenant: int = 0) -> None:
        self._of_principal = of_principal
        self._of_tenant = of_tenant
        # Tenant -> number -> who waits, in the order in which they began to.
        self._waiting: dict[str, dict[int, tuple[str, Connection]]] = {}
        self._numbers = count()
        self._episodes = Episodes()

    async def taken(self, principal: Principal, connection: Connection | None) -> None:
        """Wait until all that was written to a connection is taken, or it is gone."""
        if connection is None or not connection.unsent:
            return
        waiting = self._waiting.setdefault(principal.tenant, {})
        number = next(self._numbers)
        waiting[number] = (principal.name, connection)
        try:
            self._hold(principal, [each for _, each in waiting.values()], self._of_tenant, "its tenant")
            own = [each for name, each in waiting.values() if name == principal.name]
            self._hold(principal, own, self._of_principal, "it")
            await connection.taken()
        finally:
            del waiting[number]
            if not waiting and self._waiting.get(principal.tenant) is waiting:
                del self._waiting[principal.tenant]

    def _hold(self, principal: Principal, connections: list[Connection], most: int, whose: str) -> None:
        if not most:
            return
        distinct = list(dict.fromkeys(connections))  # requests may come by one, one after the other
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
