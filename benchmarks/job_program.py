"""The processes of the benchmark of jobs: workers whose jobs have effects that can be counted, made to be killed."""

import random
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import anyio
from sqlalchemy import bindparam, text, update

from layerlore.extraction.chat.chat_port import ChatAnswer
from layerlore.extraction.jobs.worker import JobWorker, Pace
from layerlore.extraction.kinds.kind import Author, Material
from layerlore.memory.engine.engine import Engine
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.validation import Limits
from layerlore.memory.secrets.redaction import Redactor
from layerlore.server.runtime.engines import close_engine
from layerlore.storage.audit.usage_rows import UsageSums
from layerlore.storage.core import tables
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.dialect import open_database
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Claim

PACE = Pace(lease_ms=400, beat_seconds=0.13, poll_seconds=0.1, gather_seconds=0.01)
THREADS_OF_A_RESOURCE = 5
STEP = 2
"""Effects of one job."""
THINKING_SECONDS = (0.0, 0.06)
SPENT = UsageSums(1, 10, 1, 5)


@dataclass(frozen=True, slots=True)
class Tally:
    """What was found: ``expected`` effects, how often one is there more than once, how many are not there at all,
    whether every job is done, and calls of the model against what the day's spending says of them."""

    expected: int = 0
    stored: int = 0
    duplicates: int = 0
    missing: int = 0
    done: bool = False
    calls: int = 0
    counted: bool = True


@dataclass(frozen=True)
class Counting:
    """The kind of job: writes down each seq that was asked for, and asks for the next ones, up to the limit. Only the
    fence keeps an effect from being written twice: nothing else is looked at."""

    name: job_rows.Kind = "observe"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material:
        row = await tx.one(text("SELECT upto FROM effect_limit"))
        assert row is not None
        return Material("", "", {"type": "object"}, "count/1", (claim.done_seq + 1, claim.seq, row[0], engine.now()))

    def read(self, answer: Json, material: Material) -> Json:
        return answer

    async def commit(self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Json, by: Author) -> None:
        first, last, upto, now = material.inputs
        rows = [{"thread": _name(claim.scope, claim.thread_uid), "seq": seq} for seq in range(first, last + 1)]
        await tx.many(text("INSERT INTO effects (thread, seq) VALUES (:thread, :seq)"), rows)
        if last < upto:
            wanted = min(last + STEP, upto)
            await job_rows.request(tx, claim.scope, claim.thread_uid, self.name, wanted, due_at=now, now=now)


class SlowChat:
    """Answers after a while, as a model does, outside of any transaction."""

    def model(self, kind: str) -> str:
        return "slow/one"

    async def answer(self, kind: str, material: Material) -> ChatAnswer:
        await anyio.sleep(random.uniform(*THINKING_SECONDS))
        return ChatAnswer({}, self.model(kind), SPENT)


def _name(scope: Scope, thread_uid: str) -> str:
    return f"{scope.resource_id}/{thread_uid}"


def places(threads: int) -> list[tuple[Scope, str]]:
    """The threads, a few of each resource."""
    return [(Scope("local", "agent", f"r{n // THREADS_OF_A_RESOURCE}"), f"t{n}") for n in range(threads)]


async def prepare(url: str) -> None:
    """Make the tables that the effects go to."""
    database = await open_database(url, Path())
    try:
        for statement in (
            "CREATE TABLE effects (thread TEXT NOT NULL, seq BIGINT NOT NULL)",
            "CREATE TABLE effect_limit (upto BIGINT NOT NULL)",
            "INSERT INTO effect_limit VALUES (0)",
        ):
            await database.write_installation(_run, statement)
    finally:
        await database.close()


async def raise_limit(url: str, threads: int, upto: int) -> None:
    """Let every thread go on to that seq."""
    database = await open_database(url, Path())
    try:
        await database.write_installation(_raise_limit, threads, upto, _now())
    finally:
        await database.close()


async def _raise_limit(tx: Tx, threads: int, upto: int, now: int) -> None:
    await tx.run(text("UPDATE effect_limit SET upto = :upto"), upto=upto)
    for scope, thread_uid in places(threads):
        # One more than was done, whatever that is: its commit asks for the rest.
        row = await tx.one(text("SELECT max(seq) FROM effects WHERE thread = :thread"), thread=_name(scope, thread_uid))
        first = min((row[0] or 0) + STEP if row else STEP, upto)
        await tx.enter(scope)
        await job_rows.request(tx, scope, thread_uid, "observe", first, due_at=now, now=now)


async def tally(url: str, threads: int, upto: int) -> Tally:
    """Count what is there."""
    database = await open_database(url, Path())
    try:
        return await database.read_installation(_tally, threads, upto)
    finally:
        await database.close()


async def _tally(tx: Tx, threads: int, upto: int) -> Tally:
    if tx.backend.name == "postgres":  # whose role owns the tables
        await tx.all(text("SELECT set_config('layerlore.across', 'yes', true)"))
    counts = [
        (await tx.all(text(sql)))[0][0] or 0
        for sql in (
            "SELECT count(*) FROM effects",
            "SELECT count(*) FROM (SELECT DISTINCT thread, seq FROM effects) AS d",
            "SELECT sum(calls) FROM usage",
        )
    ]
    stored, distinct, calls = map(int, counts)
    open_jobs = await tx.all(text("SELECT 1 FROM jobs WHERE requested_seq > done_seq OR done_seq < :upto"), upto=upto)
    tokens, cost = (
        await tx.all(text("SELECT coalesce(sum(tokens), 0), coalesce(sum(cost_nano_usd), 0) FROM spending"))
    )[0]
    of_one = (SPENT.input_tokens + SPENT.output_tokens, SPENT.cost_nano_usd)
    return Tally(
        expected=threads * upto,
        stored=stored,
        duplicates=stored - distinct,
        missing=threads * upto - distinct,
        done=not open_jobs,
        calls=calls,
        counted=(int(tokens), int(cost)) == (calls * of_one[0], calls * of_one[1]),
    )


async def work(url: str, fenced: bool) -> None:
    """A worker, until it is killed."""
    if not fenced:
        _take_the_fence_down()
    database = await open_database(url, Path())
    engine = _engine(database)
    try:
        await JobWorker(engine, [Counting()], SlowChat(), holder=uuid.uuid4().hex, concurrency=3, pace=PACE).run()
    finally:
        await close_engine(engine)


def _take_the_fence_down() -> None:
    """What a queue of leases alone would do: whoever thinks to have a job may end it."""

    async def finish(tx: Tx, claim: Claim, *, now: int, due_at: int | None = None) -> None:
        await tx.run(_END, **of_thread(claim.scope, claim.thread_uid), of_kind=claim.kind, seq=claim.seq)

    async def held(tx: Tx, scope: Scope, thread_uid: str, kind: job_rows.Kind, epoch: int) -> bool:
        return True

    async def prolong(tx: Tx, claim: Claim, *, now: int, lease_ms: int) -> bool:
        return True

    job_rows.finish, job_rows.find_held, job_rows.prolong = finish, held, prolong


_END = (
    update(tables.jobs)
    .where(
        in_thread(tables.jobs), tables.jobs.c.kind == bindparam("of_kind"), tables.jobs.c.done_seq < bindparam("seq")
    )
    .values(done_seq=bindparam("seq"), holder=None, lease_until=None)
)
_COUNTER = TokenCounter(None)
_LIMITS = Limits()


def _engine(database: Database) -> Engine:
    return Engine(
        database=database,
        tokens=_COUNTER,
        redactor=Redactor(b"key"),
        hmac_key=b"key",
        limits=_LIMITS,
        redaction="all",
        deleted_days=30,
        now=_now,
        new_id=lambda: uuid.uuid4().hex,
    )


def _now() -> int:
    return time.time_ns() // 1_000_000


async def _run(tx: Tx, statement: str) -> None:
    await tx.run(text(statement))
