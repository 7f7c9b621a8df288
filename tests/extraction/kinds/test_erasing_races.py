"""Memory is erased while a model thinks about it: nothing that it says is stored, in any table."""

import itertools
import random
from collections.abc import AsyncIterator, Callable

import anyio
import pytest
from sqlalchemy import text

from layerlore.conformance.seeing_all import see_all
from layerlore.extraction.kinds.kind import JobKind
from layerlore.memory.removal.erasure import erase, finish_erasures
from layerlore.memory.settings.note_settings import EntryRules, ObservationRules
from layerlore.storage.audit import usage_rows
from layerlore.storage.core.records import Json, Origin, Tenant
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Claim, Kind
from layerlore.storage.removal import erasure

from .. import talking
from ..talking import Talk
from .test_deleting_interleavings import KINDS, extracted, observed, order, profiled, remembered, titled

pytestmark = pytest.mark.anyio

# Smaller than may be set.
RULES = ObservationRules.model_construct(message_tokens=150, reflect_tokens=1_000_000)
REPLIES = {
    "observe": observed,
    "entries": extracted,
    "profile": profiled,
    "session_memory": remembered,
    "title": titled,
}
ORIGIN = Origin("test", "erase")


@pytest.fixture(autouse=True)
def make_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: dict[Kind, JobKind] = KINDS
    for name, kind in kinds.items():
        monkeypatch.setitem(talking.KINDS, name, kind)


class Race:
    """Somebody says things in two threads, is thought about, and erased meanwhile: all of it, or one thread."""

    def __init__(self, database: Database, seed: int) -> None:
        self.chance = random.Random(seed)
        self.talk = Talk.on(database, RULES, resource=f"person-{seed}")
        object.__setattr__(self.talk.engine, "entries", EntryRules.model_construct(max_entries_per_turn=100))
        for kind, reply in REPLIES.items():
            self.talk.chat.tell(kind, reply)
        self.whole = seed % 2 == 0
        self.kind = list(KINDS)[seed // 2 % len(KINDS)]
        self.tags = (f"ORD-{seed * 100 + number}x" for number in itertools.count())
        self.gone: list[str] = []
        self.kept: list[str] = []
        self.request = False

    async def say(self, name: str) -> None:
        self.talk.thread = name
        messages: list[Json] = []
        for _ in range(self.chance.randint(2, 4)):
            tag = next(self.tags)
            (self.gone if self.whole or name == "a" else self.kept).append(tag)
            messages += [{"role": "user", "content": order(tag)}, {"role": "assistant", "content": "On its way."}]
        await self.talk.add(*messages)

    async def claim(self, *kinds: Kind) -> Claim | None:
        talk = self.talk
        return await talk.engine.database.write(
            job_rows.claim_in, talk.scope, kinds, holder="test", now=talk.now, lease_ms=30_000
        )

    async def work(self, most: int = 100) -> int:
        """Do the jobs that are due; counts them."""
        done = 0
        while done < most and (claim := await self.claim(*KINDS)) is not None:
            await self.talk.attempt(claim)
            done += 1
        return done

    async def run(self) -> None:
        await self.say("b")
        await self.say("a")
        for _ in range(self.chance.randint(0, 4)):  # some of it is told already
            self.talk.now += 60_000
            await self.work(most=1)
        await self.say("a")
        self.talk.now += 60_000
        claim = await self.claim(self.kind) or await self.claim(*KINDS)
        assert claim is not None
        chat = self.talk.chat
        chat.hold()
        begun = chat.begun
        ended: list[str] = []

        async def attempt() -> None:
            ended.append(await self.talk.attempt(claim))
            begun.set()  # also if no model was asked

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(attempt)
            with anyio.fail_after(120):
                await begun.wait()
            self.request = request = not ended
            receipt = await self.erase()
            assert receipt > 0
            chat.release()
        assert not request or ended == [f"{claim.kind} fenced off"]

    async def erase(self) -> int:
        thread = "" if self.whole else "a"
        scope, engine = self.talk.scope, self.talk.engine
        receipt = await erase(engine, Tenant(scope.tenant_id), scope.resource_id, thread_id=thread, origin=ORIGIN)
        return receipt.rows

    async def go_on(self) -> None:
        """Whatever is due is done, and said anew: what was erased does not come back."""
        while True:
            self.talk.now += 60_000
            if not await self.work():
                break
        assert await finish_erasures(self.talk.engine) == 0


async def everything(tx: Tx, dialect: str) -> str:
    """Every row of every table, as text."""
    names = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
        "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
    }
    await see_all(tx)
    found = []
    for (name,) in await tx.all(text(names[dialect])):
        found += [repr(tuple(row)) for row in await tx.all(text(f'SELECT * FROM "{name}"'))]
    return "\n".join(found)


async def race(database: Database, seeds: range) -> None:
    races = [Race(database, seed) for seed in seeds]
    for each in races:
        await each.run()
    assert sum(each.request for each in races) > 0.9 * len(races), "a model was at it"
    stored = await database.read_installation(everything, database.backend.name)
    for each in races:
        assert not [tag for tag in each.gone if tag in stored]
        if each.whole:
            assert f"'{each.talk.scope.resource_id}'" not in stored
            assert not await database.read(erasure.count, each.talk.scope)
    for each in races:
        await each.go_on()
    stored = await database.read_installation(everything, database.backend.name)
    assert not [tag for each in races for tag in each.gone if tag in stored]
    assert all(tag in stored for each in races for tag in each.kept)


@pytest.fixture
async def in_memory() -> AsyncIterator[Database]:
    database = await SqliteDatabase.open(":memory:")
    yield database
    await database.close()


async def test_no_race_with_a_running_job_brings_anything_back(
    in_memory: Database, trials: Callable[..., range]
) -> None:
    await race(in_memory, trials(40, soak=200))


async def test_races_with_running_jobs_bring_nothing_back_on_both_databases(
    database: Database, trials: Callable[..., range]
) -> None:
    await race(database, trials(10, soak=200))


async def test_of_what_a_running_job_cost_only_the_sum_of_the_day_stays(database: Database) -> None:
    each = Race(database, 0)
    await each.run()
    assert not await database.read(erasure.count, each.talk.scope)
    spent = await database.read_installation(usage_rows.read_of_day, usage_rows.day_of(each.talk.now))
    assert spent.tokens == 120 * len(each.talk.chat.request)
