"""Messages and threads go and come back while a model thinks about them: nothing that was made from what is gone is
shown, and at last everything is told that is there, in every kind of memory."""

import itertools
import random
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from sqlalchemy import text

from layerlore.extraction.kinds.entries import EntryExtractor
from layerlore.extraction.kinds.kind import JobKind
from layerlore.extraction.kinds.observer import Observer
from layerlore.extraction.kinds.profile import ProfileWriter
from layerlore.extraction.kinds.session_memory import SessionMemoryWriter
from layerlore.extraction.kinds.titles import TitleWriter
from layerlore.memory.removal.deletion import delete_thread
from layerlore.memory.settings.note_settings import EntryRules, ObservationRules
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.derived import entries, observations, session_notes, working_memory
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.jobs.job_rows import Kind
from layerlore.storage.threads import threads

from .. import talking
from ..talking import SENT, Talk, given, note, noting

pytestmark = pytest.mark.anyio

ORDER = re.compile(r"ORD-\d+x")
# Smaller than may be set.
RULES = ObservationRules.model_construct(message_tokens=150, reflect_tokens=1_000_000)
KINDS: dict[Kind, JobKind] = {
    kind.name: kind for kind in (Observer(), EntryExtractor(), ProfileWriter(), SessionMemoryWriter(), TitleWriter())
}


def order(tag: str) -> str:
    return f"Please ship order {tag} to Lima."


def tags(value: Any) -> list[str]:
    return list(dict.fromkeys(ORDER.findall(str(value))))


def lines(found: list[str]) -> str:
    return "\n".join(f"- wants {tag}" for tag in found)


def observed(material: Any) -> Json:
    """A note on each order, and a task that names all that the model was told of, whenever it was noted."""
    content = given(material)
    named = [(line["seq"], tags(line["text"])) for line in content["messages"]]
    notes = [note(f"{tag} is to be shipped", seq, seq) for seq, found in named for tag in found]
    return noting(*notes, task="ship " + ", ".join(tags(content)))


def extracted(material: Any) -> Json:
    return {
        "entries": [
            {"content": f"{tag} goes to Lima", "source": "user_assertion", "evidence": order(tag), "corrects": None}
            for tag in tags(given(material)["messages"])
        ]
    }


def profiled(material: Any) -> Json:
    content = given(material)
    new = tags(content["messages"])
    known = tags(content["profile"])
    evidence = order(new[0]) if new else ""
    return {"changed": bool(new), "evidence": evidence, "document": lines(list(dict.fromkeys([*known, *new])))}


def remembered(material: Any) -> Json:
    content = given(material)
    if "notes" in content:
        return {
            "document": lines(
                list(dict.fromkeys(tags([content["session_memory"], content["notes"], content["messages"]])))
            )
        }
    new = tags(content["messages"])
    notes = [{"category": "state", "text": f"{tag} was ordered"} for tag in new]
    return {"notes": notes, "nothing_to_note": not notes}


def titled(material: Any) -> Json:
    return {"title": f"Shipping {tags(material.content)[0]}"}


class Interleaving:
    """Two threads, and what a seed makes happen to them."""

    def __init__(self, talk: Talk, seed: int) -> None:
        self.talk, self.chance = talk, random.Random(seed)
        for kind, reply in (
            ("observe", observed),
            ("entries", extracted),
            ("profile", profiled),
            ("session_memory", remembered),
            ("title", titled),
        ):
            talk.chat.tell(kind, reply)
        self.numbers = itertools.count(1)
        self.there: dict[str, dict[str, str]] = {"a": {}, "b": {}}  # by thread: id and order of its messages
        self.gone: dict[str, dict[str, str]] = {}  # threads that are deleted
        self.deletes: list[tuple[str, str, dict[str, str]]] = []

    async def say(self) -> None:
        name = self.chance.choice([each for each in self.there if each not in self.gone])
        raw: list[Json] = []
        for _ in range(self.chance.randint(1, 2)):
            number = next(self.numbers)
            self.there[name][f"m{number}"] = f"ORD-{number}x"
            raw += [
                {"id": f"m{number}", "role": "user", "content": order(f"ORD-{number}x")},
                {"role": "assistant", "content": "It is on its way."},
            ]
        self.talk.thread = name
        await self.talk.add(*raw)

    async def delete(self) -> None:
        name = self.chance.choice(["a", "b"])
        if name not in self.gone and (ids := sorted(self.there[name])):
            self.talk.thread = name
            chosen = self.chance.sample(ids, min(len(ids), self.chance.randint(1, 3)))
            uid = await self.talk.delete(*chosen)
            self.deletes.append((uid, name, {id_: self.there[name].pop(id_) for id_ in chosen}))

    async def delete_thread(self) -> None:
        if not self.gone and self.there["b"]:
            self.talk.now += 1
            deleted = await delete_thread(self.talk.engine, self.talk.scope, "b", sent=SENT)
            self.gone["b"], self.there["b"] = self.there["b"], {}
            self.deletes.append((deleted["undo"], "", {}))

    async def restore(self) -> None:
        open_ = [each for each in self.deletes if each[1] not in self.gone]
        if open_:
            chosen = self.chance.choice(open_)
            self.deletes.remove(chosen)
            uid, name, back = chosen
            await self.talk.restore(uid)
            if name:
                self.there[name] |= back
            else:
                self.there["b"] = self.gone.pop("b")

    async def happen(self) -> None:
        kinds = [self.say, self.delete, self.delete_thread, self.restore]
        await self.chance.choices(kinds, [6, 4, 1, 3])[0]()
        await self.check()

    async def think(self) -> None:
        claim = await self.talk.claim(*KINDS)
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
            for _ in range(self.chance.choice([0, 0, 1, 2])):
                await self.happen()
            self.talk.chat.release()
        await self.check()

    async def shown(self, tx: Tx, scope: Scope) -> dict[str, set[str]]:
        """The orders that each kind of memory tells of."""
        ids = [
            row[0]
            for row in await tx.all(text("SELECT entry_id FROM entries WHERE resource_id = :r"), r=scope.resource_id)
        ]
        profile = await working_memory.read_current(tx, scope, "")
        found: dict[str, Any] = {
            "entries": [entry.content for entry in (await entries.read_seen(tx, scope, ids)).values()],
            "profile": profile.content if profile else "",
        }
        for name in self.there:
            try:
                thread = await threads.find(tx, scope, name)
            except NotFound:
                continue
            memory = await working_memory.read_current(tx, scope, name)
            notes = await session_notes.queued(tx, scope, thread.thread_uid)
            rows = await observations.read(tx, scope, thread.thread_uid, "active", "buffered")
            found[f"session {name}"] = [memory.content if memory else "", [each.text for each in notes]]
            found[f"observations {name}"] = [row.text for row in rows]
            found[f"title {name}"] = thread.title
            found[f"task {name}"] = [thread.current_task, thread.next_step]
        return {what: set(tags(told)) for what, told in found.items()}

    async def check(self) -> dict[str, set[str]]:
        shown = await self.talk.engine.database.read(self.shown, self.talk.scope)
        everywhere = {tag for orders in self.there.values() for tag in orders.values()}
        for what, told in shown.items():
            _, _, name = what.partition(" ")
            assert told <= (set(self.there[name].values()) if name else everywhere), what
        return shown

    async def run(self) -> None:
        await self.say()
        for _ in range(self.chance.randint(8, 20)):
            await (self.think if self.chance.random() < 0.5 else self.happen)()
        while True:
            self.talk.now += 60_000
            if not await self.talk.work(*KINDS):
                break
        shown = await self.check()
        everywhere = {tag for orders in self.there.values() for tag in orders.values()}
        assert shown["entries"] == everywhere
        assert shown["profile"] == everywhere
        for name, orders in self.there.items():
            if f"session {name}" in shown:
                assert shown[f"session {name}"] == set(orders.values())
                assert bool(shown[f"title {name}"]) == bool(orders)


@pytest.fixture
async def in_memory() -> AsyncIterator[Database]:
    database = await SqliteDatabase.open(":memory:")
    yield database
    await database.close()


@pytest.fixture(autouse=True)
def make_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kind in KINDS.items():
        monkeypatch.setitem(talking.KINDS, name, kind)


async def begin(database: Database, seed: int) -> None:
    talk = Talk.on(database, RULES, resource=str(seed))
    object.__setattr__(talk.engine, "entries", EntryRules.model_construct(max_entries_per_turn=100))
    await Interleaving(talk, seed).run()


async def test_no_interleaving_shows_anything_of_what_is_gone_or_misses_what_is_there(
    in_memory: Database, trials: Callable[..., range]
) -> None:
    for seed in trials(20, soak=300):
        await begin(in_memory, seed)


async def test_interleavings_of_deletes_on_both_databases(database: Database, trials: Callable[..., range]) -> None:
    for seed in trials(5, soak=50):
        await begin(database, seed)
