"""A conversation that is observed: what is said in it, a clock, and the jobs done one after the other."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scripted_chat import ScriptedChat

from layerlore.extraction.jobs.worker import attempt
from layerlore.extraction.kinds.digester import Digester
from layerlore.extraction.kinds.kind import AnswerRefused, Fenced, JobKind, Material, Stale
from layerlore.extraction.kinds.observer import Observer
from layerlore.extraction.kinds.reflector import Reflector
from layerlore.memory.engine.engine import Engine, Redaction, Sent
from layerlore.memory.messages.addition import add_messages
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.removal.deletion import delete_messages
from layerlore.memory.removal.undo import undo
from layerlore.memory.rules.validation import Limits
from layerlore.memory.secrets.redaction import Redactor
from layerlore.memory.settings.note_settings import ObservationRules
from layerlore.storage.core.records import ROLES, Json, Origin, Scope, Thread
from layerlore.storage.core.transaction import Database
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import Observation, Status
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Claim, Kind
from layerlore.storage.threads import threads

ANA = Scope("local", "agent", "ana")
SENT = Sent(Origin("test", "add_messages"))
COUNTER = load_counter()
START = 1_750_000_000_000
MINUTE = 60_000

SMALL = ObservationRules(message_tokens=1000, reflect_tokens=300)
"""A step is 200 tokens, and 200 stay raw."""

KINDS: dict[Kind, JobKind] = {"observe": Observer(), "digest": Digester(), "reflect": Reflector()}
_ids = (f"{number:032}" for number in itertools.count())


def words(tag: str, tokens: int = 50) -> str:
    """A text of about so many tokens that begins with a tag."""
    return f"{tag}: " + " ".join(["tea"] * (tokens - COUNTER.text(f"{tag}:") - 4))


def given(material: Material) -> Json:
    """What a model was given."""
    content: Json = json.loads(material.content)
    return content


def note(text: str, first: int, last: int, marker: str = "info", details: Sequence[str] = ()) -> Json:
    return {
        "marker": marker,
        "text": text,
        "from_seq": first,
        "to_seq": last,
        "refers_to": None,
        "details": list(details),
    }


def noting(*notes: Json, task: str | None = None, step: str | None = None) -> Json:
    return {"observations": list(notes), "nothing_to_note": not notes, "current_task": task, "next_step": step}


def one_each(material: Material) -> Json:
    """A note on every message, which begins as the message does."""
    return noting(
        *(note(each["text"].partition(":")[0], each["seq"], each["seq"]) for each in given(material)["messages"])
    )


@dataclass
class Talk:
    engine: Engine
    chat: ScriptedChat = field(default_factory=lambda: ScriptedChat(observe=one_each))
    thread: str = "main"
    now: int = START
    scope: Scope = ANA

    @classmethod
    def on(
        cls,
        database: Database,
        rules: ObservationRules = SMALL,
        *,
        redaction: Redaction = "all",
        chat: ScriptedChat | None = None,
        resource: str = "ana",
    ) -> "Talk":
        talk = cls.__new__(cls)
        engine = Engine(
            database=database,
            tokens=COUNTER,
            redactor=Redactor(b"k" * 32),
            hmac_key=b"k" * 32,
            limits=Limits(),
            redaction=redaction,
            deleted_days=30,
            now=lambda: talk.now,
            new_id=lambda: next(_ids),
            observation=rules,
        )
        talk.__init__(  # type: ignore[misc]
            engine, chat or ScriptedChat(observe=one_each), scope=Scope("local", "agent", resource)
        )
        return talk

    async def say(self, *texts: str, role: str = "user", **more: Any) -> list[int]:
        """Say texts, one message each and a minute apart. Returns their seqs."""
        return await self.add(*({"role": role, "content": text, **more} for text in texts))

    async def add(self, *raw: Json, replace: bool = False) -> list[int]:
        self.now += MINUTE
        answer = await add_messages(self.engine, self.scope, self.thread, list(raw), replace=replace, sent=SENT)
        return [each["seq"] for each in answer["messages"]]

    async def delete(self, *ids: str) -> str:
        """Returns the id that undoes the delete."""
        self.now += 1
        deleted = await delete_messages(
            self.engine, self.scope, self.thread, "ids", ids=list(ids), roles=list(ROLES), sent=SENT
        )
        return deleted["undo"]

    async def restore(self, undo_id: str) -> None:
        """Undo it."""
        self.now += 1
        await undo(self.engine, self.scope, undo_id, sent=SENT)

    async def found(self) -> Thread:
        return await self.engine.database.read(threads.find, self.scope, self.thread)

    async def rows(self, *statuses: Status) -> list[Observation]:
        uid = (await self.found()).thread_uid
        return await self.engine.database.read(observations.read, self.scope, uid, *(statuses or ("active",)))

    async def texts(self, *statuses: Status) -> list[str]:
        return [row.text for row in await self.rows(*statuses)]

    async def claim(self, *kinds: Kind) -> Claim | None:
        return await self.engine.database.write_installation(
            job_rows.claim, kinds or tuple(KINDS), holder="test", now=self.now, lease_ms=30_000
        )

    async def work(self, *kinds: Kind, most: int = 100) -> list[str]:
        """Do the jobs that are due, as a worker does. Returns how each ended."""
        ended: list[str] = []
        while len(ended) < most and (claim := await self.claim(*kinds)) is not None:
            ended.append(await self.attempt(claim))
        return ended

    async def attempt(self, claim: Claim) -> str:
        chat = None if claim.kind == "digest" else self.chat
        try:
            await attempt(self.engine, KINDS[claim.kind], claim, chat)
        except Stale:
            await self.engine.database.write(job_rows.hand_back, claim, now=self.now)
            return f"{claim.kind} stale"
        except Fenced:  # something was deleted meanwhile
            return f"{claim.kind} fenced off"
        except AnswerRefused as error:
            await self.engine.database.write(
                job_rows.fail, claim, error=str(error), retry_at=self.now, dead=False, now=self.now
            )
            return f"{claim.kind} refused: {error}"
        return claim.kind

    async def waiting(self) -> dict[str, str]:
        found = await self.engine.database.read(job_rows.list_waiting, self.scope, self.now)
        return {job.kind: job.state for job in found if job.kind in KINDS}
