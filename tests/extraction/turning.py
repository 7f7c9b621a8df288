"""A conversation whose turns are distilled: what is said, and one kind of job done as a worker does it."""

import json
from dataclasses import dataclass
from typing import Any

from scripted_chat import Reply, ScriptedChat

from layerlore.extraction.chat.chat_port import Chat
from layerlore.extraction.jobs.worker import attempt, judge_answer, store_result
from layerlore.extraction.kinds.kind import AnswerRefused, Author, JobKind, Material, Stale
from layerlore.memory.documents import working_memory
from layerlore.memory.engine.engine import WriteRequest
from layerlore.memory.settings.note_settings import DocumentRules, DocumentScope, WorkingMemoryRules
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.derived import working_memory as stored_working_memory
from layerlore.storage.derived.working_memory import DocumentSource
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Claim, JobRow
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import Cursor

from .talking import Talk

CALLER = WriteRequest(Origin("claude", "update_working_memory"))
LATER = 1_000_000
"""More than turns are waited for, in ms."""


@dataclass
class Turns:
    talk: Talk
    kind: JobKind
    of: DocumentScope

    @classmethod
    def on(cls, database: Database, kind: JobKind, of: DocumentScope = "thread") -> "Turns":
        return cls(Talk.on(database), kind, of)

    def set(self, **given: object) -> None:
        """Change what the engine was made with."""
        for name, value in given.items():
            object.__setattr__(self.talk.engine, name, value)

    def rule(self, rules: DocumentRules, **more: Any) -> None:
        self.set(working_memory=WorkingMemoryRules(thread=rules, resource=rules, **more))

    async def turn(self, said: str, answer: str = "I see.") -> list[int]:
        """A user says something and is answered. Returns the seqs."""
        return await self.talk.add({"role": "user", "content": said}, {"role": "assistant", "content": answer})

    async def claim(self) -> Claim | None:
        self.talk.now += LATER
        return await self.talk.engine.database.write_installation(
            job_rows.claim, [self.kind.name], holder="test", now=self.talk.now, lease_ms=30_000
        )

    async def work(self, *replies: Reply) -> list[Json]:
        """Do the jobs of the kind that are due, a reply each; the last one stays. Returns what the model was given.

        An answer that is refused, or too late, raises, and the job waits.
        """
        chat = ScriptedChat()
        chat.tell(self.kind.name, *replies)
        for _ in range(10):
            if (claim := await self.claim()) is None:
                break
            await self.attempt(claim, chat)
        return [given(material) for material in chat.of(self.kind.name)]

    async def attempt(self, claim: Claim, chat: Chat | None) -> None:
        database, now = self.talk.engine.database, self.talk.now
        try:
            await attempt(self.talk.engine, self.kind, claim, chat)
        except Stale:
            await database.write(job_rows.hand_back, claim, now=now)
            raise
        except AnswerRefused as error:
            await database.write(job_rows.fail, claim, error=str(error), retry_at=now, dead=False, now=now)
            raise

    async def answer(self, claim: Claim, material: Material, answer: Json) -> None:
        """Store an answer to material that was read earlier. Raises AnswerRefused, Stale, Fenced."""
        engine = self.talk.engine
        result = await judge_answer(engine, self.kind, claim, material, answer, Author("m", material.prompt))

        async def store(tx: Tx, _: Scope) -> None:
            await store_result(tx, engine, result, now=engine.now())

        await engine.database.write(store, claim.scope)

    async def waiting(self) -> list[JobRow]:
        found = await self.talk.engine.database.read(job_rows.list_waiting, self.talk.scope, self.talk.now)
        return [job for job in found if job.kind == self.kind.name]

    async def document(self) -> working_memory.WorkingMemoryDocument:
        return await working_memory.read_current(self.talk.engine, self.talk.scope, self.of, self.talk.thread)

    async def content(self) -> str:
        return (await self.document()).content

    async def keep(self, content: Any) -> None:
        """A caller writes the document."""
        self.talk.now += 1
        await working_memory.update_document(
            self.talk.engine,
            self.talk.scope,
            self.of,
            self.talk.thread,
            content,
            mode="replace",
            expected_version=None,
            sent=CALLER,
        )

    async def clear(self) -> None:
        self.talk.now += 1
        await working_memory.clear_document(
            self.talk.engine,
            self.talk.scope,
            self.of,
            self.talk.thread,
            expected_version=None,
            may_be_new=False,
            sent=CALLER,
        )

    async def sources(self, version: int) -> list[tuple[int, int]]:
        uid = (await self.talk.found()).thread_uid if self.of == "thread" else ""
        found: list[DocumentSource] = await self.talk.engine.database.read(
            stored_working_memory.sources_of_version, self.talk.scope, uid, version
        )
        return [(source.from_seq, source.to_seq) for source in found]

    async def cursor(self, cursor: Cursor) -> int:
        uid = (await self.talk.found()).thread_uid
        return await self.talk.engine.database.read(threads.read_cursor, self.talk.scope, uid, cursor)


def given(material: Material) -> Json:
    content: Json = json.loads(material.content)
    return content


def said(lines: list[Json]) -> list[str]:
    return [line["text"] for line in lines]
