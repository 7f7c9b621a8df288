"""The daily budget of background work: in the whole installation, and for one tenant."""

import logging
from collections.abc import Collection
from dataclasses import dataclass

from layerlore.extraction.chat.chat_port import NOTHING, ChatFailed
from layerlore.memory.engine.engine import Engine
from layerlore.memory.usage.model_usage import NANO
from layerlore.storage.audit import usage_rows
from layerlore.storage.audit.usage_rows import OfDay, day_of, next_day
from layerlore.storage.core.records import Tenant
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import MOST_FAILURES, Claim, Kind

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DailyBudget:
    """The limits of the whole installation for a UTC day: tokens (input and output together) and dollars; 0 means no
    limit.

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
    """The limit of each tenant for a UTC day: tokens, input and output together; 0 means no limit. ``kinds`` are the
    jobs that ask a model.

    A call that has begun is finished: the sum may exceed the limit by as many calls as run at a time. The work of a
    host's own model does not count.
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
        spent = await self._engine.database.home.read(usage_rows.read_of_tenant, tenant, day_of(now))
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
    # The job goes back first, so that it is put off together with the others.
    await job_rows.hand_back(tx, claim, now=now)
    await job_rows.put_off(tx, tenant, kinds, until=until, now=now)


FIRST_MS = 1_000
LONGEST_MS = 300_000
# So that the pause before the last attempt is the longest one.
_FACTOR: float = (LONGEST_MS / FIRST_MS) ** (1 / (MOST_FAILURES - 2))

OUTAGE = 3
"""After this many requests in a row without an answer, of any jobs, models rest for a while."""
OUTAGE_MS = 5_000


def retry_pause_ms(failures: int, chance: float, retry_after_ms: int | None = None) -> int:
    """Milliseconds until the next attempt, after this many failures in a row: from one second to five minutes, or as
    long as the provider asked for, if that is longer. ``chance`` (0 to 1) makes it up to a quarter longer, so that jobs
    that failed together do not come back together."""
    pause: float = min(FIRST_MS * _FACTOR ** (max(1, failures) - 1), LONGEST_MS)
    return round(max(pause, retry_after_ms or 0) * (1 + chance / 4))


@dataclass(frozen=True, slots=True)
class Pause:
    """Why models rest, and until when, in milliseconds since 1970."""

    reason: str
    until: int


class ModelPauses:
    """The present pause of one worker. Times are milliseconds since 1970."""

    def __init__(self) -> None:
        self._pause: Pause | None = None
        self._failures = 0

    def at(self, now: int) -> Pause | None:
        """The pause that holds now, if any."""
        if self._pause is not None and self._pause.until > now:
            return self._pause
        return None

    def begin(self, reason: str, until: int) -> None:
        """Begin a pause, unless a longer one holds."""
        if self._pause is not None and self._pause.until >= until:
            return
        log.warning("no model is asked for a while: %s", reason)
        self._pause = Pause(reason, until)

    def note_failure(self, error: ChatFailed, now: int) -> None:
        """Note that a model gave no answer. The pause is what the provider asked for, else a guess."""
        if error.of_setup:
            self.begin(str(error), now + (error.retry_after_ms or LONGEST_MS))
            return
        if error.retry_after_ms:
            self.begin(str(error), now + error.retry_after_ms)
        if not error.retryable or error.spent != NOTHING:
            self._failures = 0  # the model is there: the answer or the request is at fault
        elif self.at(now) is None:  # during a pause, a failure of an earlier request says nothing new
            self._failures += 1
            if self._failures >= OUTAGE:
                pause = OUTAGE_MS * 2 ** min(self._failures - OUTAGE, 10)
                self.begin(str(error), now + min(pause, LONGEST_MS))

    def note_success(self) -> None:
        """Note that a model answered."""
        self._failures = 0
