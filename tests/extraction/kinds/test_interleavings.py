"""Messages come, go, come back and change while a model thinks: none is skipped, and none is told that is gone."""

import random
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from layerlore.memory.settings.note_settings import ObservationRules
from layerlore.storage.core.records import ROLES
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.messages import message_pages

from ..talking import Talk, given, note, noting

pytestmark = pytest.mark.anyio

# Smaller than may be set.
RULES = ObservationRules.model_construct(message_tokens=150, reflect_tokens=1_000_000)
ORDER = re.compile(r"ORD-\d+x\d+")


def order(number: int, revision: int = 0) -> str:
    return f"Please ship order ORD-{number}x{revision} to Lima."


def told(material: Any) -> Any:
    """A note on every message with the order it names, and one on all of them."""
    seen = [(each["seq"], ORDER.search(each["text"])) for each in given(material)["messages"]]
    named = [(seq, found[0]) for seq, found in seen if found]
    return noting(
        *(note(f"{tag} is to be shipped", seq, seq) for seq, tag in named),
        note("asked for " + ", ".join(tag for _, tag in named), named[0][0], named[-1][0]),
    )


class Interleaving:
    """One thread, and what a seed makes happen to it."""

    def __init__(self, talk: Talk, seed: int) -> None:
        self.talk = talk
        self.chance = random.Random(seed)
        self.talk.thread = f"t{seed}"
        self.talk.chat.tell("observe", told)
        self.ids: dict[str, str] = {}  # id of each message that is there: the order it names
        self.deletes: list[tuple[str, dict[str, str]]] = []
        self.number = 0
        self.cursor = 0

    async def say(self) -> None:
        raw = []
        for _ in range(self.chance.randint(1, 4)):
            self.number += 1
            raw.append({"id": f"m{self.number}", "role": "user", "content": order(self.number)})
            self.ids[f"m{self.number}"] = f"ORD-{self.number}x0"
        await self.talk.add(*raw)

    async def delete(self) -> None:
        if self.ids:
            gone = self.chance.sample(sorted(self.ids), min(len(self.ids), self.chance.randint(1, 3)))
            self.deletes.append((await self.talk.delete(*gone), {id_: self.ids.pop(id_) for id_ in gone}))

    async def restore(self) -> None:
        if self.deletes:
            uid, back = self.deletes.pop(self.chance.randrange(len(self.deletes)))
            await self.talk.restore(uid)
            self.ids |= back

    async def replace(self) -> None:
        if self.ids:
            id_ = self.chance.choice(sorted(self.ids))
            number, revision = self.ids[id_].removeprefix("ORD-").split("x")
            await self.talk.add(
                {"id": id_, "role": "user", "content": order(int(number), int(revision) + 1)}, replace=True
            )
            self.ids[id_] = f"ORD-{number}x{int(revision) + 1}"

    async def happen(self) -> None:
        await self.chance.choices([self.say, self.delete, self.restore, self.replace], [6, 3, 2, 1])[0]()
        await self.check()

    async def think(self) -> None:
        """A job begins; while the model thinks something happens, or not; it ends."""
        claim = await self.talk.claim()
        if claim is None:
            return
        self.talk.chat.hold()
        begun = self.talk.chat.begun

        async def attempt() -> None:
            await self.talk.attempt(claim)
            begun.set()  # also if no model was asked

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(attempt)
            with anyio.fail_after(120):
                await begun.wait()
            for _ in range(self.chance.randint(0, 3)):
                await self.happen()
            self.talk.chat.release()
        await self.check()

    async def check(self) -> None:
        """Nothing is told of what is not there; the shown cursor never moves back."""
        thread = await self.talk.found()
        shown = " ".join(await self.talk.texts("active", "buffered"))
        assert set(ORDER.findall(shown)) <= set(self.ids.values())
        assert self.cursor <= thread.observed_seq <= thread.buffered_seq
        self.cursor = thread.observed_seq

    async def run(self) -> None:
        await self.say()
        for _ in range(self.chance.randint(6, 14)):
            await (self.think if self.chance.random() < 0.4 else self.happen)()
        self.talk.chat.release()
        self.talk.now += 60_000
        while await self.talk.work():
            self.talk.now += 60_000
        await self.check()
        thread = await self.talk.found()
        there = await self.talk.engine.database.read(
            message_pages.page, self.talk.scope, self.talk.thread, roles=ROLES, limit=1000, offset=0
        )
        for statuses, cursor in ((("active",), thread.observed_seq), (("active", "buffered"), thread.buffered_seq)):
            texts = " ".join(await self.talk.texts(*statuses))
            noted = {self.ids[message.id] for message in there.messages if message.seq <= cursor}
            assert set(ORDER.findall(texts)) == noted, self.talk.thread


@pytest.fixture
async def in_memory() -> AsyncIterator[Database]:
    database = await SqliteDatabase.open(":memory:")
    yield database
    await database.close()


async def test_no_interleaving_skips_or_resurrects_a_message(in_memory: Database, trials: Callable[..., range]) -> None:
    for seed in trials(50, soak=1000):
        await Interleaving(Talk.on(in_memory, RULES, resource=str(seed)), seed).run()


async def test_interleavings_on_both_databases(database: Database, trials: Callable[..., range]) -> None:
    for seed in trials(5, soak=100):
        await Interleaving(Talk.on(database, RULES, resource=str(seed)), seed).run()
