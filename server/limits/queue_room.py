"""The room for background jobs of a tenant."""

from collections.abc import Callable, Collection

from cachetools import LRUCache

from layerlore.memory.engine.engine import Engine
from layerlore.server.limits.room import TooMuch
from layerlore.storage.core.records import Tenant
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Kind

FRESH_MS = 5_000
"""How long a count is used; a fifth of that once it exceeds half the limit."""
MOST_TENANTS = 1000


class QueueRoom:
    """At most ``most`` jobs of a tenant may be due, of the kinds that a worker does by itself; 0: any number.

    They are not counted for each write, so a tenant may exceed the limit by what it makes due in between. Jobs that wait
    for their own time, for a host's model, or for the next day's budget are no backlog, and are not counted.
    """

    def __init__(self, engine: Engine, kinds: Callable[[], Collection[Kind]], most: int) -> None:
        self._engine = engine
        self._kinds = kinds
        self._most = most
        # By tenant: the jobs at the last count, and until when the count is used.
        self._counts = LRUCache[str, tuple[int, int]](MOST_TENANTS)

    async def check(self, tenant_id: str) -> None:
        """Raises TooMuch when no room exists, StorageUnavailable."""
        if not self._most:
            return
        now = self._engine.now()
        count, until = self._counts.get(tenant_id, (0, 0))
        if now >= until:
            # Other requests use the old count meanwhile, so that only one request counts.
            self._counts[tenant_id] = count, now + FRESH_MS
            count = await self._engine.database.read(
                job_rows.count_due, Tenant(tenant_id), self._kinds(), most=self._most, now=now
            )
            # Near the limit the count must be fresh, or it would be exceeded by much.
            until = now + (FRESH_MS if count < self._most / 2 else FRESH_MS // 5)
            self._counts[tenant_id] = count, until
        if count >= self._most:
            allowed = f"{self._most:,} are allowed to be due; nothing was stored"
            raise TooMuch("background jobs of your tenant", allowed, (until - now) / 1000)
