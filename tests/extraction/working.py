"""A worker on a test's database: kinds of jobs whose effects can be counted, a clock, and the worker run beside."""

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from sqlalchemy import text

from layerlore.conformance.seeing_all import see_all
from layerlore.extraction.chat.chat_port import Chat
from layerlore.extraction.jobs.worker import JobWorker, Pace
from layerlore.extraction.kinds.kind import AnswerRefused, Author, Material
from layerlore.memory.engine.engine import Engine
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.validation import Limits
from layerlore.memory.secrets.redaction import Redactor
from layerlore.storage.core import scopes
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Database, Row, Tx
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Claim, JobRow, Kind

ANA = Scope("local", "agent", "ana")
START = 1_750_000_000_000
PATIENCE = 120.0  # seconds: only a hang takes so long
PACE = Pace(beat_seconds=0.02, poll_seconds=0.02, gather_seconds=0.0)


@dataclass
class Counting:
    """Writes down what it was done for. ``own_answer`` is its answer without a model; what the hooks raise, it raises."""

    name: Kind = "observe"
    own_answer: Json | None = None
    nothing: bool = False
    on_prepare: Callable[[], Any] = lambda: None
    on_commit: Callable[[], Any] = lambda: None

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        self.on_prepare()
        return None if self.nothing else Material("do", "[]", {"type": "object"}, f"{self.name}/1", claim.done_seq)

    def read(self, answer: Json, material: Material) -> Json:
        if "wrong" in answer:
            raise AnswerRefused(f"there may be no 'wrong' ({answer['wrong']})")
        return answer

    async def commit(self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Json, by: Author) -> None:
        values = {
            "kind": self.name,
            "thread": claim.thread_uid,
            "seq": claim.seq,
            "model": by.model,
            "prompt": by.prompt,
        }
        await tx.run(text("INSERT INTO effects VALUES (:kind, :thread, :seq, :model, :prompt)"), **values)
        self.on_commit()

    def digest(self, material: Material) -> Json | None:
        return self.own_answer


@dataclass
class Work:
    """``now`` is the clock of the engine, in milliseconds; waits are real."""

    database: Database
    engine: Engine = field(init=False)
    now: int = START

    async def begin(self) -> "Work":
        self.engine = Engine(
            database=self.database,
            tokens=TokenCounter(None),
            redactor=Redactor(b"k" * 32),
            hmac_key=b"k" * 32,
            limits=Limits(),
            redaction="all",
            deleted_days=30,
            now=lambda: self.now,
            new_id=lambda: uuid.uuid4().hex,
        )
        make = "CREATE TABLE effects (kind TEXT, thread TEXT, seq BIGINT, model TEXT, prompt TEXT)"
        await self.database.write_installation(_run, make)
        return self

    async def ask(self, thread: str = "t", seq: int = 1, *, kind: Kind = "observe", scope: Scope = ANA) -> None:
        async def asked(tx: Tx, scope: Scope) -> None:
            await scopes.hold(tx, scope)
            await job_rows.request(tx, scope, thread, kind, seq, due_at=self.now, now=self.now)

        await self.database.write(asked, scope)

    def worker(self, kinds: Sequence[Counting], chat: Chat | None = None, **options: Any) -> JobWorker:
        options = {"holder": "this", "pace": PACE, "chance": lambda: 0.0, **options}
        return JobWorker(self.engine, kinds, chat, **options)

    @asynccontextmanager
    async def working(
        self, kinds: Sequence[Counting], chat: Chat | None = None, **options: Any
    ) -> AsyncIterator[JobWorker]:
        """The worker runs until the context is left."""
        worker = self.worker(kinds, chat, **options)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.run)
            yield worker
            tasks.cancel_scope.cancel()

    async def effects(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in await self.database.read_installation(_all, "SELECT * FROM effects"))

    async def waiting(self) -> dict[tuple[str, Kind], JobRow]:
        found = await self.database.read_installation(_all, _JOBS)
        return {(row[0], row[2]): JobRow(*row) for row in found}

    async def until(self, met: Callable[[], Any]) -> None:
        """Wait until a condition holds; an async one, too."""
        with anyio.fail_after(PATIENCE):
            while True:
                found = met()
                if await found if hasattr(found, "__await__") else found:
                    return
                await anyio.sleep(0.01)

    async def until_effects(self, count: int) -> list[tuple[Any, ...]]:
        async def there() -> bool:
            return len(await self.effects()) >= count

        await self.until(there)
        return await self.effects()

    async def until_failed(self, attempts: int, thread: str = "t", kind: Kind = "observe") -> JobRow:
        async def there() -> bool:
            row = (await self.waiting()).get((thread, kind))
            return row is not None and row.attempts >= attempts

        await self.until(there)
        return (await self.waiting())[thread, kind]

    async def until_done(self) -> None:
        async def done() -> bool:
            return not await self.waiting()

        await self.until(done)


# Without the threads that the jobs name, which these tests do not make.
_JOBS = """
SELECT thread_uid, thread_uid, kind, CASE WHEN dead_at IS NOT NULL THEN 'dead' WHEN lease_until IS NOT NULL THEN 'running'
       ELSE 'waiting' END, requested_seq, done_seq, due_at, attempts, dead_at, error, created_at
FROM jobs WHERE requested_seq > done_seq
"""


async def _run(tx: Tx, sql: str) -> int:
    await see_all(tx)
    return await tx.run(text(sql))


async def _all(tx: Tx, sql: str) -> Sequence[Row]:
    await see_all(tx)
    return await tx.all(text(sql))
