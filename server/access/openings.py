"""The openings: the profile, the plan and open work at the beginning of a connection's first answer.

It is apart from ``caller``, which a start loads before the first answer.
"""

from collections.abc import Hashable
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from layerlore.memory.rules.ages import MINUTE_MS
from layerlore.server.access.caller import Caller
from layerlore.storage.core.records import Scope

AGAIN_MS = 30 * MINUTE_MS
"""A client without a connection gets an opening again after this time, in the same thread."""
_MOST_CLIENTS = 10_000


class Openings:
    """Remembers, as long as the process runs, which connections had their opening; without a connection, which client had it
    in which thread."""

    def __init__(self) -> None:
        self._connections: WeakKeyDictionary[Hashable, set[Scope]] = WeakKeyDictionary()
        self._clients = LRUCache[tuple[Scope, str, str], int](_MOST_CLIENTS)

    def claim(self, caller: Caller, now: int) -> bool:
        """Whether this call is the one that gives the opening. A page shows these things itself."""
        if caller.by_page:
            return False
        if caller.connection is not None:
            scopes = self._connections.setdefault(caller.connection, set())
            is_first = caller.scope not in scopes
            scopes.add(caller.scope)
            return is_first
        client = (caller.scope, caller.client, caller.default_thread)
        before = self._clients.get(client)
        if before is not None and now - before < AGAIN_MS:
            return False
        self._clients[client] = now
        return True
