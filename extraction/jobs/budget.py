"""What background work may spend in a day: in the whole installation, and for one tenant."""

import logging
from collections.abc import Collection
from dataclasses import dataclass

from layerlore.memory.engine.engine import Engine
from layerlore.memory.usage.model_usage import NANO
from layerlore.storage.audit import spending
from layerlore.storage.audit.spending import OfDay, day_of, next_day
from layerlore.storage.core.records import Tenant
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs import jobs, tenant_jobs
from layerlore.storage.jobs.jobs import Claim, Kind

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DailyBudget:
    """The limits of the whole installation for a UTC day: tokens (input and output together) and dollars; 0 is no limit.

    A call that has begun is finished: the sum may exceed the limit by as many calls as run at a time.
    """

    daily_tokens: int = 0
    daily_usd: float = 0.0

    @property
    def limited(self) -> bool:
        return bool(self.daily_tokens or self.daily_usd)

    def exhausted(self, spent: OfDay) -> str:
        """Why nothing more may be spent today, in words; empty while something is left."""
        if self.daily_tokens and spent.tokens >= self.daily_tokens:
            return f"today's budget of {self.daily_tokens:,} tokens is spent ({spent.tokens:,})"
        dollars = spent.cost_nano_usd / NANO
        if self.daily_usd and dollars >= self.daily_usd:
            return f"today's budget of ${self.daily_usd:g} is spent (${dollars:.4f})"
        return ""


class TenantBudget:
    """The limit of each tenant for a UTC day: tokens, input and output together; 0 is no limit. ``kinds`` are the jobs
    that ask a model.

    A call that has begun is finished: the sum may exceed the limit by as many calls as run at a time. What a host's own
    model does is not counted.
    """

    def __init__(self, engine: Engine, daily_tokens: int, kinds: Collection[Kind]) -> None:
        self._engine = engine
        self._daily_tokens = daily_tokens
        self._kinds = list(kinds)
        self._day = ""
        self._warned: set[str] = set()

    async def postpone(self, claim: Claim) -> bool:
        """If the claim's tenant has spent its tokens, put off its jobs, this one included, until the next day. Returns
        whether it did.

        Raises StorageUnavailable.
        """
        if not self._daily_tokens:
            return False
        tenant, now = Tenant(claim.scope.tenant_id), self._engine.now()
        spent = await self._engine.database.read(spending.read_of_tenant, tenant, day_of(now))
        if spent < self._daily_tokens:
            return False
        await self._engine.database.write(_put_off, tenant, claim, self._kinds, until=next_day(now), now=now)
        self._warn(tenant, spent, day_of(now))
        return True

    def _warn(self, tenant: Tenant, spent: int, day: str) -> None:
        """Once a day and tenant."""
        if day != self._day:
            self._day, self._warned = day, set()
        if tenant.tenant_id in self._warned:
            return
        self._warned.add(tenant.tenant_id)
        log.warning(
            "no model is asked for tenant %r until the next day (UTC): its %s tokens are spent (%s)",
            tenant.tenant_id,
            f"{self._daily_tokens:,}",
            f"{spent:,}",
        )


async def _put_off(tx: Tx, tenant: Tenant, claim: Claim, kinds: Collection[Kind], *, until: int, now: int) -> None:
    await jobs.hand_back(tx, claim, now=now)
    await tenant_jobs.put_off(tx, tenant, kinds, until=until, now=now)
