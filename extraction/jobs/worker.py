"""The worker of background jobs: it claims jobs that are due, from each resource in turn, and ends them.

Any number of workers, in any number of processes, share the jobs of a database. A worker that is killed, or delayed for
longer than its lease, loses its jobs to others and can no longer store their results.
"""

import contextlib
import json
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import anyio
from anyio.abc import TaskGroup

from layerlore.extraction.chat.chat_port import Chat, ChatFailed
from layerlore.extraction.jobs.budget import DailyBudget, ModelPauses, Pause, TenantBudget, retry_pause_ms
from layerlore.extraction.kinds.kind import (
    EXTRACTIVE,
    MODEL_KINDS,
    AnswerRefused,
    Author,
    DigestingKind,
    EnrichingKind,
    JobEnd,
    JobKind,
    JoiningKind,
    Material,
    MendableAnswer,
    PartialAnswer,
    Stale,
)
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.usage.model_usage import NANO
from layerlore.prompts import render
from layerlore.storage.audit import usage_rows
from layerlore.storage.audit.usage_rows import UsageLine, UsageSums
from layerlore.storage.core import metrics, scopes
from layerlore.storage.core.errors import LayerloreError, NotFound
from layerlore.storage.core.records import Json, Origin, Scope, Tenant
from layerlore.storage.core.scopes import NoteKind
from layerlore.storage.core.traces import span
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import note_rows
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import MOST_FAILURES, Claim, Fenced, Kind


class NoModel(Exception):
    """The kind has no model, and no answer without one: the job waits for the host's model."""


async def attempt(engine: Engine, kind: JobKind, claim: Claim, chat: Chat | None) -> None:
    """Do a claimed job. If this raises, nothing is stored. Without a chat the answer is the kind's own digest. A model
    gets one more try for the refused part of its answer about a turn.

    Raises AnswerRefused, Stale, Fenced, NoModel, ChatFailed, StorageUnavailable, and any error of a defect.
    """
    engine = engine.for_agent(claim.scope.agent_id)
    if engine.memory != "on":  # the memory was closed after the request
        await engine.database.write(job_rows.finish, claim, now=engine.now())
        return
    material = await prepare(engine, kind, claim)
    if material is None:
        return
    result = await _find_result(engine, kind, claim, material, chat)
    for reason in await _store(engine, result):
        log.warning("%s: left out of an answer: %s", kind.name, reason)


async def _find_result(engine: Engine, kind: JobKind, claim: Claim, material: Material, chat: Chat | None) -> "Result":
    """The checked answer. Raises AnswerRefused if nothing of it can be stored, even after a second request."""
    answer, by = await _answer(engine, kind, claim, material, chat)
    first: Result | None = None
    try:
        first = await judge_answer(engine, kind, claim, material, answer, by)
        wrong = first.mendable
    except AnswerRefused as refused:
        if chat is None or material.turn is None:
            raise
        wrong = (refused.for_model,)
    if first is not None and (not wrong or chat is None or material.turn is None):
        return first
    again = ask_again(material, answer, wrong)
    try:
        corrected, by = await _answer(engine, kind, claim, again, chat)
        second = await judge_answer(engine, kind, claim, again, corrected, by)
    except (AnswerRefused, ChatFailed):
        # The usable part of the first answer is not lost with the second.
        if first is None:
            raise
        return first
    if first is None or not isinstance(kind, JoiningKind):
        return second
    return replace(second, value=kind.join(first.value, second.value, material))


def ask_again(material: Material, answer: Json, wrong: Sequence[str]) -> Material:
    """The material once more, with the answer that was refused and the reasons."""
    content = {**json.loads(material.content), "refused_answer": answer, "refused": list(wrong)}
    instructions = f"{material.instructions}\n\n{render('refused').text}"
    return replace(material, instructions=instructions, content=json.dumps(content, ensure_ascii=False), again=True)


async def prepare(engine: Engine, kind: JobKind, claim: Claim) -> Material | None:
    """Read the job's material. None: there is nothing to do, and the job is finished. Raises Fenced, StorageUnavailable."""
    try:
        material = await engine.database.read(kind.prepare, claim, engine)
    except NotFound:  # deleted after the request
        material = None
    if material is None:
        await engine.database.write(job_rows.finish, claim, now=engine.now())
    return material


@dataclass(frozen=True, slots=True)
class Result:
    """A checked answer of one kind, that can be stored. ``refused``: why parts of it are left out; ``mendable``: which of
    them its author can mend; ``stays_open``: the job is not ended, and waits for these."""

    kind: JobKind
    claim: Claim
    material: Material
    value: Any
    by: Author
    refused: tuple[str, ...] = ()
    mendable: tuple[str, ...] = ()
    stays_open: bool = False


async def judge_answer(
    engine: Engine, kind: JobKind, claim: Claim, material: Material, answer: Json, by: Author
) -> Result:
    """Check an answer to the material, and make it what can be stored. Raises AnswerRefused, Stale."""
    read = value = kind.read(answer, material)
    if isinstance(kind, EnrichingKind):
        value = await kind.enrich(engine, material, value)
    if isinstance(value, PartialAnswer):
        partial = value
    else:
        partial = read
    if isinstance(partial, PartialAnswer):
        refused = tuple(partial.refused)
    else:
        refused = ()
    if isinstance(value, MendableAnswer):
        mendable = tuple(value.mendable)
    else:
        mendable = ()
    return Result(kind, claim, material, value, by, refused, mendable)


# The notes that a kind of job writes, which are to be found at once.
_NOTES: dict[Kind, NoteKind] = {
    "profile": "profile",
    "session_memory": "session_memory",
    "observe": "observation",
    "reflect": "observation",
    "digest": "observation",
}


async def store_result(tx: Tx, engine: Engine, result: Result, *, now: int) -> JobEnd:
    """Store an answer together with its job's end, unless the job stays open. Raises Stale, and Fenced once another worker has the job: then the
    whole transaction must be undone."""
    claim = result.claim
    # A fenced worker would meet rows that another one wrote. The check and the job's end are in one transaction.
    if await job_rows.find_held(tx, claim.scope, claim.thread_uid, claim.kind, claim.epoch) is None:
        raise job_rows.Fenced("another worker has the job")
    found = await result.kind.commit(tx, claim, engine, result.material, result.value, result.by)
    if isinstance(found, JobEnd):
        ended = found
    else:
        ended = JobEnd(found)
    if (note := _NOTES.get(claim.kind)) is not None:
        if note == "profile":
            uid = ""
        else:
            uid = claim.thread_uid
        await note_rows.refresh(tx, claim.scope, uid, engine.search_text_of, (note,))
    if result.stays_open:
        await job_rows.note_failure(tx, claim, error="; ".join(result.mendable), now=now)
    else:
        done = claim if ended.done_seq is None else replace(claim, seq=ended.done_seq)
        await job_rows.finish(tx, done, now=now, due_at=ended.due_at)
    return replace(ended, refused=(*result.refused, *ended.refused))


class _StoreAnswer(TypedDict):
    refused: list[str]


async def _store(engine: Engine, result: Result) -> Sequence[str]:
    now, claim = engine.now(), result.claim

    async def store(tx: Tx) -> _StoreAnswer:
        ended = await store_result(tx, engine, result, now=now)
        return {"refused": list(ended.refused)}

    # This write also wakes the worker, since it may have made other jobs due.
    stored = await engine.write(
        claim.scope, WriteRequest(Origin(result.kind.name, "", f"job:{result.kind.name}")), [], now, store
    )
    return stored["refused"]


async def _answer(
    engine: Engine, kind: JobKind, claim: Claim, material: Material, chat: Chat | None
) -> tuple[Json, Author]:
    if chat is None or material.silent:
        if isinstance(kind, DigestingKind):
            digest = kind.digest(material)
        else:
            digest = None
        if digest is None:
            raise NoModel()
        return digest, Author(EXTRACTIVE, material.prompt)
    try:
        answer = await chat.answer(kind.name, material)
    except ChatFailed as error:
        await _count(engine, kind, claim, chat.model(kind.name), error.spent)
        raise
    # Count the cost before the answer is checked.
    await _count(engine, kind, claim, answer.model, answer.usage)
    return answer.json, Author(answer.model, material.prompt)


async def _count(engine: Engine, kind: JobKind, claim: Claim, model: str, spent: UsageSums) -> None:
    if spent == UsageSums():
        return
    # The provider charges for the call even if the work is cancelled now.
    metrics.MODEL_TOKENS.add(model, "input", by=spent.input_tokens)
    metrics.MODEL_TOKENS.add(model, "output", by=spent.output_tokens)
    metrics.MODEL_COST.add(model, by=spent.cost_nano_usd / NANO)
    with anyio.CancelScope(shield=True):
        database, now = engine.database, engine.now()
        line = UsageLine(model, kind.name, spent)
        if database.home is database:
            await database.write(_add_all, claim, line, now=now)
            return
        # On several clusters these are two commits. The budgets' sums come first: a kill in between spends too much, not
        # too little.
        await database.home.write(_add_spending, Tenant(claim.scope.tenant_id), spent, now=now)
        await database.write(_add, claim, line, now=now)


async def _add_all(tx: Tx, claim: Claim, line: UsageLine, *, now: int) -> None:
    # The sums count also where the resource was erased meanwhile.
    await _add_spending(tx, Tenant(claim.scope.tenant_id), line.spent, now=now)
    await _add(tx, claim, line, now=now)


async def _add_spending(tx: Tx, tenant: Tenant, spent: UsageSums, *, now: int) -> None:
    tokens = spent.input_tokens + spent.output_tokens
    await usage_rows.add_spending(tx, usage_rows.OfDay(tokens, spent.cost_nano_usd), now=now)
    await usage_rows.add_of_tenant(tx, tenant, tokens, now=now)


async def _add(tx: Tx, claim: Claim, line: UsageLine, *, now: int) -> None:
    # Store nothing about a resource that was erased meanwhile.
    if await scopes.still_known(tx, claim.scope, claim.thread_uid):
        await usage_rows.add(tx, claim.scope, claim.thread_uid, [line], now=now)


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
        await self._engine.database.write(job_rows.hand_back, claim, now=self._engine.now())

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
        metrics.JOB_FAILURES.add(claim.kind, "yes" if dead else "no")
        log.warning("%s: attempt %d failed%s: %s", claim.kind, failures, ", the last" if dead else "", text)
        await self._engine.database.write(
            job_rows.fail,
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


log = logging.getLogger(__name__)

HAND_BACK_SECONDS = 0.8
"""How long handing jobs back may take when the process ends. Jobs that are not handed back are free when their lease
has run out."""
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
    the tokens of each tenant in a day; 0 means no limit."""

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
        # Kinds without a digest wait for the host's model, which must find all jobs of a turn free at once.
        self._digested: list[Kind] = [
            name for name, kind in self._kinds.items() if name not in self._asked and isinstance(kind, DigestingKind)
        ]
        self._models, self._digests = _Lane(chat, concurrency), _Lane(None, concurrency)
        self._some_ended = False

    @property
    def kinds(self) -> list[Kind]:
        """The kinds that this worker does, with a model or without."""
        return [*self._asked, *self._digested]

    @property
    def pause(self) -> Pause | None:
        """Why models rest now, and until when; None while they may work."""
        return self._pauses.at(self._engine.now())

    async def run(self) -> None:
        """Work until cancelled; then hand back the jobs under way. Raises nothing: errors are in the log and in the jobs'
        rows."""
        async with anyio.create_task_group() as tasks:
            while True:
                # The event is cleared before the look, so any write from here on ends the wait below.
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
            # An ended job frees a slot at once, while further writes may follow the first in a moment.
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
            next_at = await database.read_installation(job_rows.find_soonest, kinds, now=now)
            if next_at is None or next_at > now:
                return next_at
            claim = await database.write_installation(
                job_rows.claim, kinds, holder=self._holder, now=now, lease_ms=self._pace.lease_ms
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
        if lane is self._models:
            pause = self.pause
        else:
            pause = None
        if pause is not None and lane.free:
            return pause.until
        return None

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
        spent = await self._engine.database.home.read_installation(usage_rows.read_of_day, usage_rows.day_of(now))
        if reason := self._budget.exhausted(spent):
            self._pauses.begin(reason, usage_rows.next_day(now))
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
                if not await self._engine.database.write(
                    job_rows.prolong, claim, now=now, lease_ms=self._pace.lease_ms
                ):
                    log.info("%s: another worker has the job by now", claim.kind)
                    ours.cancel()

    async def _attempt(self, lane: _Lane, claim: Claim) -> None:
        try:
            with span(f"job {claim.kind}", begins_trace=True):
                await attempt(self._engine, self._kinds[claim.kind], claim, lane.chat)
        except Exception as error:  # noqa: BLE001 - any error ends the claim
            if isinstance(error, NoModel):
                # The host's model may do such jobs. Claimed here again, they would only come back.
                self._digested = [kind for kind in self._digested if kind != claim.kind]
            if isinstance(error, ChatFailed):
                self._pauses.note_failure(error, self._engine.now())
            await self._endings.end_failed(claim, error)
        else:
            self._endings.note_success(claim)
            if lane.chat is not None:
                self._pauses.note_success()
