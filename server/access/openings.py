"""Texts that a connection gets once: the opening before its first answer (the profile, the plan and open work), and the
advice to search by several wordings.

The module is separate from ``caller`` because the server loads that before its first answer.
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
    """Remembers, while the process runs, which connections got their opening and the advice. Without connections it
    remembers clients and threads."""

    def __init__(self) -> None:
        self._connections: WeakKeyDictionary[Hashable, set[tuple[Scope, Part]]] = WeakKeyDictionary()
        self._clients = LRUCache[tuple[Scope, str, str, Part], int](_MOST_CLIENTS)

    def claim(self, caller: Caller, now: int, part: Part = "opening") -> bool:
        """Whether the answer of this call includes the opening, or the advice. False for a page, which shows these itself."""
        if caller.by_page:
            return False
        if caller.connection is not None:
            given = self._connections.setdefault(caller.connection, set())
            is_first = (caller.scope, part) not in given
            given.add((caller.scope, part))
            return is_first
        # A client whose calls each begin a new thread must not get an opening with each of them.
        thread = "" if caller.default == "new" else caller.default_thread
        client = (caller.scope, caller.client, thread, part)
        before = self._clients.get(client)
        if before is not None and now - before < AGAIN_MS:
            return False
        self._clients[client] = now
        return True
