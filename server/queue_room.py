"""Whether there is room for more background work of a tenant."""

from collections import OrderedDict
from collections.abc import Callable, Collection

from layerlore.memory.engine import Engine
from layerlore.server.access.too_much import TooMuch
from layerlore.storage import tenant_jobs
from layerlore.storage.jobs import Kind
from layerlore.storage.records import Tenant

FRESH_MS = 5_000
"""How long a count serves; one above half of what is allowed, a fifth of that."""
MOST_TENANTS = 1000


class QueueRoom:
    """At most ``most`` jobs of a tenant may be due, of the kinds that a worker does by itself; 0: any number.

    They are not counted for each write, so a tenant may pass the limit by what it makes due in the meantime. Work that
    waits for a time of its own, for a host's model, or for the next day's allowance is no backlog, and not counted.
    """

    def __init__(self, engine: Engine, kinds: Callable[[], Collection[Kind]], most: int) -> None:
        self._engine = engine
        self._kinds = kinds
        self._most = most
        self._counts: OrderedDict[str, tuple[int, int]] = (
            OrderedDict()
        )  # how many there were, and until when that serves

    async def check(self, tenant_id: str) -> None:
        """Raises TooMuch when there is no room, StorageUnavailable."""
        if not self._most:
            return
        now = self._engine.now()
        count, until = self._counts.get(tenant_id, (0, 0))
        if now >= until:
            # Whoever comes meanwhile goes by the old count, so that only one counts.
            self._keep(tenant_id, count, now + FRESH_MS)
            count = await self._engine.database.read(
                tenant_jobs.count_due, Tenant(tenant_id), self._kinds(), most=self._most, now=now
            )
            until = now + (FRESH_MS if count < self._most / 2 else FRESH_MS // 5)
            self._keep(tenant_id, count, until)
        if count >= self._most:
            allowed = f"{self._most:,} are allowed to be due; nothing was stored"
            raise TooMuch("background jobs of your tenant", allowed, (until - now) / 1000)

    def _keep(self, tenant_id: str, count: int, until: int) -> None:
        self._counts[tenant_id] = count, until
        self._counts.move_to_end(tenant_id)
        if len(self._counts) > MOST_TENANTS:
            self._counts.popitem(last=False)
