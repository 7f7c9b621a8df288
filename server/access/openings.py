"""What a connection is shown once: the opening (the profile, the plan and open work, before its first answer), and the advice
to search by several wordings.

It is apart from ``caller``, which a start loads before the first answer.
"""

from collections.abc import Hashable
from typing import Literal
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from layerlore.memory.rules.ages import MINUTE_MS
from layerlore.server.access.caller import Caller
from layerlore.storage.core.records import Scope

AGAIN_MS = 30 * MINUTE_MS
"""A client without a connection gets an opening again after this time, in the same thread."""
_MOST_CLIENTS = 10_000

Part = Literal["opening", "advice"]


class Openings:
    """Remembers, as long as the process runs, which connections had their opening and the advice; without a connection, which
    client had them in which thread."""

    def __init__(self) -> None:
        self._connections: WeakKeyDictionary[Hashable, set[tuple[Scope, Part]]] = WeakKeyDictionary()
        self._clients = LRUCache[tuple[Scope, str, str, Part], int](_MOST_CLIENTS)

    def claim(self, caller: Caller, now: int, part: Part = "opening") -> bool:
        """Whether this call is the one that gives the opening, or the advice. A page shows these things itself."""
        if caller.by_page:
            return False
        if caller.connection is not None:
            given = self._connections.setdefault(caller.connection, set())
            is_first = (caller.scope, part) not in given
            given.add((caller.scope, part))
            return is_first
        if caller.default == "new":
            # Each of its calls has a thread of its own, and must not bring an opening of its own.
            thread = ""
        else:
            thread = caller.default_thread
        client = (caller.scope, caller.client, thread, part)
        before = self._clients.get(client)
        if before is not None and now - before < AGAIN_MS:
            return False
        self._clients[client] = now
        return True
