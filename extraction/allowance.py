"""What models may take for one tenant's work in a day."""

import logging
from collections.abc import Collection

from layerlore.memory.engine import Engine
from layerlore.storage import jobs, tenant_jobs, tenant_spending
from layerlore.storage.jobs import Claim, Kind
from layerlore.storage.records import Tenant
from layerlore.storage.spending import day_of, next_day
from layerlore.storage.transaction import Tx

log = logging.getLogger(__name__)


class Allowance:
    """Of each tenant, for a UTC day: tokens, in and out together; 0 is no limit. ``kinds`` are the jobs that ask a model.

    A call that has begun is finished: the sum may pass the limit by as many calls as run at a time. What a host's own
    model does is not counted.
    """

    def __init__(self, engine: Engine, daily_tokens: int, kinds: Collection[Kind]) -> None:
        self._engine = engine
        self._daily_tokens = daily_tokens
        self._kinds = list(kinds)
        self._day = ""
        self._told: set[str] = set()

    async def puts_off(self, claim: Claim) -> bool:
        """Whether the claim's tenant has spent what it may: then its jobs, this one too, wait for the next day.

        Raises StorageUnavailable.
        """
        if not self._daily_tokens:
            return False
        tenant, now = Tenant(claim.scope.tenant_id), self._engine.now()
        spent = await self._engine.database.read(tenant_spending.on, tenant, day_of(now))
        if spent < self._daily_tokens:
            return False
        await self._engine.database.write(_put_off, tenant, claim, self._kinds, until=next_day(now), now=now)
        self._tell(tenant, spent, day_of(now))
        return True

    def _tell(self, tenant: Tenant, spent: int, day: str) -> None:
        """Once a day and tenant."""
        if day != self._day:
            self._day, self._told = day, set()
        if tenant.tenant_id not in self._told:
            self._told.add(tenant.tenant_id)
            log.warning(
                "no model is asked for tenant %r until the next day (UTC): its %s tokens are spent (%s)",
                tenant.tenant_id,
                f"{self._daily_tokens:,}",
                f"{spent:,}",
            )


async def _put_off(tx: Tx, tenant: Tenant, claim: Claim, kinds: Collection[Kind], *, until: int, now: int) -> None:
    await jobs.hand_back(tx, claim, now=now)
    await tenant_jobs.put_off(tx, tenant, kinds, until=until, now=now)
