"""Does background work: claims jobs that are due, for each resource in turn, and ends them.

Any number of workers, in any number of processes, share the jobs of a database. A worker that is killed, or held up for
longer than its lease, loses its jobs to others, and stores nothing of them any more.
"""

import contextlib
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup

from layerlore.extraction.allowance import Allowance
from layerlore.extraction.attempt import NoThinker, attempt
from layerlore.extraction.budget import Budget
from layerlore.extraction.chat.port import Chat, ThinkingFailed
from layerlore.extraction.endings import Endings
from layerlore.extraction.kind import WITHOUT_MODEL, JobKind
from layerlore.extraction.resting import Pause, Rest
from layerlore.memory.engine import Engine
from layerlore.storage import jobs, spending
from layerlore.storage.errors import LayerloreError
from layerlore.storage.jobs import Claim, Kind

log = logging.getLogger(__name__)

HAND_BACK_SECONDS = 0.8
"""When the process ends, jobs are handed back for so long; what was not is free when its lease has run out."""
TAKEN_MS = 200
"""After a due job could not be claimed (another transaction had its row), it is looked for again."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a claim holds, and when it is prolonged; how often jobs are looked for that other processes made due;
    how long a write of this one is waited upon for others to come with it."""

    lease_ms: int = 30_000
    beat_seconds: float = 10.0
    poll_seconds: float = 5.0
    gather_seconds: float = 0.1


class _Lane:
    """Jobs that are done beside each other. Those that wait for a model do not hold up those that need none."""

    def __init__(self, chat: Chat | None, slots: int) -> None:
        self.chat = chat
        self.free = slots


class JobWorker:
    """``holder`` names this process to others, ``concurrency`` bounds the calls of models at a time. Kinds for which
    the chat has no model (or all, without a chat) get their own digest, as far as they have one.
    ``tenant_daily_tokens`` bounds what models may take for each tenant in a day; 0: nothing does."""

    def __init__(
        self,
        engine: Engine,
        kinds: Sequence[JobKind],
        chat: Chat | None,
        *,
        holder: str,
        concurrency: int = 2,
        budget: Budget | None = None,
        tenant_daily_tokens: int = 0,
        pace: Pace | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._engine = engine
        self._kinds = {kind.name: kind for kind in kinds}
        self._holder = holder
        self._budget = budget or Budget()
        self._pace = pace or Pace()
        self._endings = Endings(engine, chance)
        self._rest = Rest()
        self._asked: list[Kind] = [
            name for name in self._kinds if chat is not None and name not in WITHOUT_MODEL and chat.model(name)
        ]
        self._allowance = Allowance(engine, tenant_daily_tokens, self._asked)
        self._digested: list[Kind] = [name for name in self._kinds if name not in self._asked]
        self._models, self._digests = _Lane(chat, concurrency), _Lane(None, concurrency)
        self._some_ended = False

    @property
    def kinds(self) -> list[Kind]:
        """The jobs that it does by itself: with a model, or without one."""
        return [*self._asked, *self._digested]

    @property
    def pause(self) -> Pause | None:
        """Why no model is asked now, and until when; None while one may be."""
        return self._rest.at(self._engine.now())

    async def run(self) -> None:
        """Work until cancelled; then the jobs under way are handed back. Raises nothing: what goes wrong is in the log
        and in the jobs' rows."""
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
        """Until something was written, a job ended, or the next is due; at most until the next look."""
        seconds = self._pace.poll_seconds
        if next_at is not None:
            seconds = min(seconds, max(0, next_at - self._engine.now()) / 1000)
        with anyio.move_on_after(seconds):
            await self._engine.wake.wait()
            if not self._some_ended:
                await anyio.sleep(self._pace.gather_seconds)

    async def _begin_what_is_due(self, tasks: TaskGroup) -> int | None:
        """Claim as many jobs as there is room for. Returns when the next is due for which there is."""
        found = [await self._fill(lane, tasks) for lane in (self._digests, self._models)]
        return min((at for at in found if at is not None), default=None)

    async def _fill(self, lane: _Lane, tasks: TaskGroup) -> int | None:
        database = self._engine.database
        while lane.free and (kinds := await self._open_kinds(lane)):
            now = self._engine.now()
            # A look that finds nothing takes no turn at writing.
            next_at = await database.read_installation(jobs.soonest, kinds, now=now)
            if next_at is None or next_at > now:
                return next_at
            claim = await database.write_installation(
                jobs.claim, kinds, holder=self._holder, now=now, lease_ms=self._pace.lease_ms
            )
            if claim is None:
                return now + TAKEN_MS
            if lane is self._models and await self._allowance.puts_off(claim):
                continue
            lane.free -= 1
            tasks.start_soon(self._work, lane, claim)
        # With room left, only a pause keeps it from looking: that is over before the next look may be.
        pause = self.pause if lane is self._models else None
        return pause.until if pause is not None and lane.free else None

    async def _open_kinds(self, lane: _Lane) -> list[Kind]:
        if lane is self._digests:
            return self._digested
        if self.pause is not None or (self._asked and await self._is_spent_up()):
            return []
        return self._asked

    async def _is_spent_up(self) -> bool:
        if not self._budget.limited:
            return False
        now = self._engine.now()
        spent = await self._engine.database.read_installation(spending.on, spending.day_of(now))
        if reason := self._budget.spent_up(spent):
            self._rest.begin(reason, spending.next_day(now))
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
            # Handed back it would be claimed again at once, to fail in the same way.
            over = True
            log.exception("%s: a defect; the job is free when its lease has run out", claim.kind)
        finally:
            lane.free += 1
            self._some_ended = True
            self._engine.wake.tell()
            if not over:
                with anyio.move_on_after(HAND_BACK_SECONDS, shield=True), contextlib.suppress(LayerloreError):
                    await self._endings.hand_back(claim)

    async def _keep(self, claim: Claim, ours: anyio.CancelScope) -> None:
        """Prolong the lease while the job is worked on; end the work once it is somebody else's."""
        while True:
            await anyio.sleep(self._pace.beat_seconds)
            with contextlib.suppress(LayerloreError):
                now = self._engine.now()
                if not await self._engine.database.write(jobs.prolong, claim, now=now, lease_ms=self._pace.lease_ms):
                    log.info("%s: somebody else has the job by now", claim.kind)
                    ours.cancel()

    async def _attempt(self, lane: _Lane, claim: Claim) -> None:
        try:
            await attempt(self._engine, self._kinds[claim.kind], claim, lane.chat)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the claim
            if isinstance(error, NoThinker):
                self._digested = [kind for kind in self._digested if kind != claim.kind]
            if isinstance(error, ThinkingFailed):
                self._rest.failed(error, self._engine.now())
            await self._endings.after(claim, error)
        else:
            self._endings.done(claim)
            if lane.chat is not None:
                self._rest.worked()
