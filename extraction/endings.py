"""What becomes of a job whose attempt failed: it is handed back, due again later, or dead."""

import logging
from collections.abc import Callable

from layerlore.extraction.attempt import NoThinker
from layerlore.extraction.backoff import pause_ms
from layerlore.extraction.chat.port import ThinkingFailed
from layerlore.extraction.kind import Refused, Stale
from layerlore.memory.engine import Engine
from layerlore.storage import jobs
from layerlore.storage.errors import LayerloreError
from layerlore.storage.jobs import MOST_FAILURES, Claim, Fenced, Kind
from layerlore.storage.records import Scope

log = logging.getLogger(__name__)

MOST_STALE = 3
"""So often in a row a job's material may have changed under it; then that counts as a failure."""


class Endings:
    """Ends claims. ``chance`` gives numbers from 0 to 1."""

    def __init__(self, engine: Engine, chance: Callable[[], float]) -> None:
        self._engine = engine
        self._chance = chance
        self._stale: dict[tuple[Scope, str, Kind], int] = {}

    def done(self, claim: Claim) -> None:
        """The job's attempt succeeded."""
        self._stale.pop((claim.scope, claim.thread_uid, claim.kind), None)

    async def after(self, claim: Claim, error: Exception) -> None:
        """End the claim as the error asks for. Raises nothing: a claim that cannot be ended ends with its lease."""
        try:
            await self._after(claim, error)
        except LayerloreError as unavailable:
            log.warning("%s: the job is free when its lease has run out: %s", claim.kind, unavailable)

    async def hand_back(self, claim: Claim) -> None:
        """Let somebody else have the job at once. Raises StorageUnavailable."""
        await self._engine.database.write(jobs.hand_back, claim, now=self._engine.now())

    async def _after(self, claim: Claim, error: Exception) -> None:
        match error:
            case Fenced():
                log.info("%s: somebody else has the job by now; nothing was stored", claim.kind)
            case NoThinker():
                await self.hand_back(claim)
            case Stale() if self._is_patient(claim):
                await self.hand_back(claim)
            case ThinkingFailed(of_setup=True):
                await self.hand_back(claim)
            case ThinkingFailed():
                await self._fail(claim, str(error), error.retryable, error.retry_after_ms)
            case _:
                await self._fail(claim, _told(claim, error))

    def _is_patient(self, claim: Claim) -> bool:
        key = (claim.scope, claim.thread_uid, claim.kind)
        self._stale[key] = self._stale.get(key, 0) + 1
        return self._stale[key] % MOST_STALE != 0

    async def _fail(self, claim: Claim, text: str, retryable: bool = True, retry_after_ms: int | None = None) -> None:
        failures, now = claim.attempts + 1, self._engine.now()
        dead = not retryable or failures >= MOST_FAILURES
        log.warning("%s: attempt %d failed%s: %s", claim.kind, failures, ", the last" if dead else "", text)
        await self._engine.database.write(
            jobs.fail,
            claim,
            error=self._engine.redactor.text(text)[0],
            retry_at=now + pause_ms(failures, self._chance(), retry_after_ms),
            dead=dead,
            now=now,
        )


def _told(claim: Claim, error: Exception) -> str:
    if isinstance(error, Stale):
        return f"what it was made from kept changing: {error}"
    if isinstance(error, LayerloreError | Refused):
        return str(error)
    log.error("%s: a defect", claim.kind, exc_info=error)
    return f"an unexpected error ({type(error).__name__}), see the log"
