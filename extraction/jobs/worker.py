"""The worker of background jobs: it claims jobs that are due, from each resource in turn, and ends them.

Any number of workers, in any number of processes, share the jobs of a database. A worker that is killed, or delayed for
longer than its lease, loses its jobs to others and can no longer store their results.
"""

import contextlib
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from layerlore.extraction.chat.port import Chat, ChatFailed
from layerlore.extraction.jobs.attempt import NoModel, attempt
from layerlore.extraction.jobs.budget import DailyBudget, TenantBudget
from layerlore.extraction.jobs.endings import Endings
from layerlore.extraction.jobs.pauses import ModelPauses, Pause
from layerlore.extraction.kinds.kind import MODEL_KINDS, JobKind
from layerlore.memory.engine.engine import Engine
from layerlore.storage.audit import spending
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.jobs import jobs
from layerlore.storage.jobs.jobs import Claim, Kind

log = logging.getLogger(__name__)

HAND_BACK_SECONDS = 0.8
"""How long handing jobs back may take when the process ends; the others are free when their lease has run out."""
TAKEN_MS = 200
"""The wait after a due job could not be claimed because another transaction had its row."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a claim holds (ms), and after how many seconds it is prolonged; how often the worker looks for jobs that
    other processes made due; how long it waits after a write of its own process, to see several together."""

    lease_ms: int = 30_000
    beat_seconds: float = 10.0
    poll_seconds: float = 5.0
    gather_seconds: float = 0.1


class _Lane:
    """A number of jobs at a time. Jobs that wait for a model do not delay those that need none."""

    def __init__(self, chat: Chat | None, slots: int) -> None:
        self.chat = chat
        self.free = slots


class JobWorker:
    """``holder`` names this process to others, ``concurrency`` bounds the calls of models at a time. Kinds for which
    the chat has no model (or all, without a chat) get their own digest if they have one. ``tenant_daily_tokens`` limits
    the tokens of each tenant in a day; 0 is no limit."""

    def __init__(
        self,
        engine: Engine,
        kinds: Sequence[JobKind],
        chat: Chat | None,
        *,
        holder: str,
        concurrency: int = 2,
        budget: DailyBudget | None = None,
        tenant_daily_tokens: int = 0,
        pace: Pace | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._engine = engine
        self._kinds = {kind.name: kind for kind in kinds}
        self._holder = holder
        self._budget = budget or DailyBudget()
        self._pace = pace or Pace()
        self._endings = Endings(engine, chance)
        self._pauses = ModelPauses()
        self._asked: list[Kind] = [
            name for name in self._kinds if chat is not None and name in MODEL_KINDS and chat.model(name)
        ]
        self._tenant_budget = TenantBudget(engine, tenant_daily_tokens, self._asked)
        self._digested: list[Kind] = [name for name in self._kinds if name not in self._asked]
        self._models, self._digests = _Lane(chat, concurrency), _Lane(None, concurrency)
        self._some_ended = False

    @property
    def kinds(self) -> list[Kind]:
        """The kinds that this worker does, with a model or without."""
        return [*self._asked, *self._digested]

    @property
    def pause(self) -> Pause | None:
        """Why no model is asked now, and until when; None while one may be."""
        return self._pauses.at(self._engine.now())

    async def run(self) -> None:
        """Work until cancelled; then hand back the jobs under way. Raises nothing: errors are in the log and in the jobs'
        rows."""
        async with anyio.create_task_group() as tasks:
            while True:
                self._engine.wake.clear()
                self._some_ended = False
                next_at = None
                try:
                    next_at = await self._begin_what_is_due(tasks)
                except LayerloreError as error:
                    log.warning("jobs cannot be claimed, and are looked for again: %s", error)
                except Exception:
                    log.exception("jobs cannot be claimed; it is tried again")
                await self._wait(next_at)

    async def _wait(self, next_at: int | None) -> None:
        """Wait until something was written, a job ended, or the next is due; at most for the poll interval."""
        seconds = self._pace.poll_seconds
        if next_at is not None:
            seconds = min(seconds, max(0, next_at - self._engine.now()) / 1000)
        with anyio.move_on_after(seconds):
            await self._engine.wake.wait()
            if not self._some_ended:
                await anyio.sleep(self._pace.gather_seconds)

    async def _begin_what_is_due(self, tasks: TaskGroup) -> int | None:
        """Claim as many jobs as there is room for. Returns when the next one is due, if there is room for it."""
        found = [await self._fill(lane, tasks) for lane in (self._digests, self._models)]
        return min((at for at in found if at is not None), default=None)

    async def _fill(self, lane: _Lane, tasks: TaskGroup) -> int | None:
        database = self._engine.database
        while lane.free and (kinds := await self._open_kinds(lane)):
            now = self._engine.now()
            # Look in a read first: finding nothing must not cost a write.
            next_at = await database.read_installation(jobs.find_soonest, kinds, now=now)
            if next_at is None or next_at > now:
                return next_at
            claim = await database.write_installation(
                jobs.claim, kinds, holder=self._holder, now=now, lease_ms=self._pace.lease_ms
            )
            if claim is None:
                return now + TAKEN_MS
            if lane is self._models and self.pause is not None:
                # It began while the job was claimed: another attempt has just failed and handed this very job back.
                await self._endings.hand_back(claim)
                continue
            if lane is self._models and await self._tenant_budget.postpone(claim):
                continue
            lane.free -= 1
            tasks.start_soon(self._work, lane, claim)
        # With room left, only a pause keeps the lane from claiming; it may end before the next poll.
        pause = self.pause if lane is self._models else None
        return pause.until if pause is not None and lane.free else None

    async def _open_kinds(self, lane: _Lane) -> list[Kind]:
        if lane is self._digests:
            return self._digested
        if self.pause is not None or (self._asked and await self._is_budget_spent()):
            return []
        return self._asked

    async def _is_budget_spent(self) -> bool:
        if not self._budget.limited:
            return False
        now = self._engine.now()
        spent = await self._engine.database.read_installation(spending.read_of_day, spending.day_of(now))
        if reason := self._budget.exhausted(spent):
            self._pauses.begin(reason, spending.next_day(now))
        return bool(reason)

    async def _work(self, lane: _Lane, claim: Claim) -> None:
        over = False
        try:
            with anyio.CancelScope() as ours:
                async with anyio.create_task_group() as beside:
                    beside.start_soon(self._keep, claim, ours)
                    await self._attempt(lane, claim)
                    beside.cancel_scope.cancel()
            over = True
        except Exception:
            # If it were handed back, it would be claimed again at once and fail in the same way.
            over = True
            log.exception("%s: a defect; the job is free when its lease has run out", claim.kind)
        finally:
            lane.free += 1
            self._some_ended = True
            self._engine.wake.notify()
            if not over:
                with anyio.move_on_after(HAND_BACK_SECONDS, shield=True), contextlib.suppress(LayerloreError):
                    await self._endings.hand_back(claim)

    async def _keep(self, claim: Claim, ours: anyio.CancelScope) -> None:
        """Prolong the lease during the work; cancel the work once another worker has the job."""
        while True:
            await anyio.sleep(self._pace.beat_seconds)
            with contextlib.suppress(LayerloreError):
                now = self._engine.now()
                if not await self._engine.database.write(jobs.prolong, claim, now=now, lease_ms=self._pace.lease_ms):
                    log.info("%s: another worker has the job by now", claim.kind)
                    ours.cancel()

    async def _attempt(self, lane: _Lane, claim: Claim) -> None:
        try:
            await attempt(self._engine, self._kinds[claim.kind], claim, lane.chat)
        except Exception as error:  # noqa: BLE001 - any error ends the claim
            if isinstance(error, NoModel):
                self._digested = [kind for kind in self._digested if kind != claim.kind]
            if isinstance(error, ChatFailed):
                self._pauses.note_failure(error, self._engine.now())
            await self._endings.end_failed(claim, error)
        else:
            self._endings.note_success(claim)
            if lane.chat is not None:
                self._pauses.note_success()
