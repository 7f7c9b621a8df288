"""The end of a claim: after a failed attempt a job is handed back, due again later, or dead."""

import logging
from collections.abc import Callable

from layerlore.extraction.chat.port import ChatFailed
from layerlore.extraction.jobs.attempt import NoModel
from layerlore.extraction.jobs.pauses import retry_pause_ms
from layerlore.extraction.kinds.kind import AnswerRefused, Stale
from layerlore.memory.engine.engine import Engine
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Scope
from layerlore.storage.jobs import jobs
from layerlore.storage.jobs.jobs import MOST_FAILURES, Claim, Fenced, Kind

log = logging.getLogger(__name__)

MOST_STALE = 3
"""After this many changes of its material in a row, a job has failed."""


class Endings:
    """Ends claims. ``chance`` returns numbers from 0 to 1."""

    def __init__(self, engine: Engine, chance: Callable[[], float]) -> None:
        self._engine = engine
        self._chance = chance
        self._stale: dict[tuple[Scope, str, Kind], int] = {}

    def note_success(self, claim: Claim) -> None:
        """Forget how often the job's material changed."""
        self._stale.pop((claim.scope, claim.thread_uid, claim.kind), None)

    async def end_failed(self, claim: Claim, error: Exception) -> None:
        """End the claim as the error requires. Raises nothing: a claim that cannot be ended ends with its lease."""
        try:
            await self._end(claim, error)
        except LayerloreError as unavailable:
            log.warning("%s: the job is free when its lease has run out: %s", claim.kind, unavailable)

    async def hand_back(self, claim: Claim) -> None:
        """Make the job due at once for any worker. Raises StorageUnavailable."""
        await self._engine.database.write(jobs.hand_back, claim, now=self._engine.now())

    async def _end(self, claim: Claim, error: Exception) -> None:
        match error:
            case Fenced():
                log.info("%s: another worker has the job by now; nothing was stored", claim.kind)
            case NoModel():
                await self.hand_back(claim)
            case Stale() if self._is_patient(claim):
                await self.hand_back(claim)
            case ChatFailed(of_setup=True):
                await self.hand_back(claim)
            case ChatFailed():
                await self._fail(claim, str(error), error.retryable, error.retry_after_ms)
            case _:
                await self._fail(claim, _describe(claim, error))

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
            retry_at=now + retry_pause_ms(failures, self._chance(), retry_after_ms),
            dead=dead,
            now=now,
        )


def _describe(claim: Claim, error: Exception) -> str:
    if isinstance(error, Stale):
        return f"its material kept changing: {error}"
    if isinstance(error, LayerloreError | AnswerRefused):
        return str(error)
    log.error("%s: a defect", claim.kind, exc_info=error)
    return f"an unexpected error ({type(error).__name__}), see the log"
