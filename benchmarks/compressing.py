"""One thread, noted to its end: messages come in through the server's own function, and the jobs that they make due are
done as its worker does them, on a clock that moves on instead of waiting."""

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from layerlore.extraction.chat.chat_port import Chat, ChatAnswer
from layerlore.extraction.jobs.worker import Endings, attempt
from layerlore.extraction.kinds.digester import Digester
from layerlore.extraction.kinds.kind import EXTRACTIVE, JobKind, Kind, Material
from layerlore.extraction.kinds.observer import Observer
from layerlore.extraction.kinds.reflector import Reflector
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages.addition import add_messages
from layerlore.memory.observations.observation_text import activate_observations, render_observations
from layerlore.memory.parts.parts import part_texts
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import load_settings
from layerlore.storage.core.records import Json, Message, Origin, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import Observation
from layerlore.storage.jobs import job_rows
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads

THREAD = "main"
CLOSING: Json = {"role": "user", "content": "Thanks, see you!"}
"""What is said last, so that all that was said before is noted."""

_SENT = WriteRequest(Origin("benchmark", "add_messages"))
_START = 1_750_000_000_000
_BETWEEN_MS = 60_000
_LEASE_MS = 600_000
# Longer than any message of the sets.
_LONGEST = 1024 * 1024
_KINDS: dict[Kind, JobKind] = {"observe": Observer(), "reflect": Reflector(), "digest": Digester()}
# A reflection is due by this much, as much as lets the extractive one stand in.
_DUE = 1.2


@dataclass(frozen=True, slots=True)
class Told:
    """What the observations say as the block that a model reads, and its tokens."""

    text: str
    tokens: int
    notes: int
    extracts: int


@dataclass(frozen=True, slots=True)
class Compressed:
    """A thread's messages, oldest first, with their tokens; the observations of all of them, and after one reflection.

    ``shown`` is all that the observer was given to read; empty where none was asked. ``failures`` counts attempts whose
    answer was refused or did not come.
    """

    messages: list[tuple[str, int]]
    observed: Told
    reflected: Told
    shown: str
    failures: int

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens in self.messages)

    def newest(self, tokens: int) -> str:
        """What a window of so many tokens would hold: the end of the thread."""
        kept: list[str] = []
        for text, size in reversed(self.messages):
            tokens -= size
            if tokens < 0:
                break
            kept.append(text)
        return "\n".join(kept)


@dataclass
class _Listening:
    """A chat whose material is kept."""

    chat: Chat
    shown: list[str] = field(default_factory=list)

    def model(self, kind: str) -> str:
        return self.chat.model(kind)

    async def answer(self, kind: str, material: Material) -> ChatAnswer:
        if kind == "observe":
            self.shown += [each["text"] for each in json.loads(material.content)["messages"]]
        return await self.chat.answer(kind, material)


async def compressed(batches: Sequence[list[Json]], chat: Chat | None, message_tokens: int) -> Compressed:
    """Say the messages, batch by batch, in a new thread with that threshold, and note them all; without a chat in
    extracts. Nothing of it is kept."""
    listening = _Listening(chat) if chat is not None else None
    async with _opened() as engine:
        thread = _Thread(engine, listening)
        thread.rule(message_tokens=message_tokens, keep_share=0.0)
        for batch in batches:
            await thread.say(batch)
        await thread.note_the_rest()
        observed = await thread.told()
        await thread.reflect()
        return Compressed(
            [_read(thread.engine, message) for message in await thread.messages()],
            observed,
            await thread.told(),
            "\n".join(listening.shown) if listening else "",
            thread.failures,
        )


@contextlib.asynccontextmanager
async def _opened() -> AsyncIterator[Engine]:
    chosen: Json = {"database": "sqlite://:memory:", "embedding": {"embedder": "none"}}
    engine = await open_engine(load_settings(chosen | {"limits": {"message_text_bytes": _LONGEST}}, environ={}))
    try:
        yield engine
    finally:
        await close_engine(engine)


class _Thread:
    def __init__(self, engine: Engine, chat: Chat | None) -> None:
        self._now = _START
        self.engine = replace(engine, now=lambda: self._now)
        self.failures = 0
        self._chat = chat
        self._scope = Scope(LOCAL_TENANT, "default", "default")
        self._endings = Endings(self.engine, lambda: 0.0)

    def rule(self, **rules: Any) -> None:
        """As a server that is started again with other settings."""
        self.engine = replace(self.engine, observation=self.engine.observation.model_copy(update=rules))

    async def say(self, batch: list[Json]) -> None:
        self._now += _BETWEEN_MS
        await add_messages(self.engine, self._scope, THREAD, batch, replace=False, sent=_SENT)
        await self._work()

    async def note_the_rest(self) -> None:
        """Let the threshold be what is still raw, say one thing more, and show what was noted ahead by then."""
        raw = (await self._found()).raw_tokens
        self.rule(message_tokens=max(1, raw), buffer_share=0.0, stand_in=1.0)
        await self.say([CLOSING])
        found = await self._found()
        rules = self.engine.observation
        await self.engine.database.write(activate_observations, self._scope, found, rules, now=self._now)

    async def reflect(self) -> None:
        """Reflect once, with a threshold that has just been passed."""
        tokens = sum(row.tokens for row in await self._rows())
        self.rule(reflect_tokens=int(tokens / _DUE), stand_in=1.0)
        thread = await self._found()
        kind: Kind = "digest" if self._chat is None else "reflect"
        above = thread.next_seq + thread.next_event_seq
        await self.engine.database.write(
            job_rows.request, self._scope, thread.thread_uid, kind, above, due_at=self._now, now=self._now
        )
        await self._work(kind)

    async def told(self) -> Told:
        rows = await self._rows()
        text = render_observations(rows, self.engine.tokens)
        return Told(text, self.engine.tokens.text(text), len(rows), sum(row.model == EXTRACTIVE for row in rows))

    async def messages(self) -> list[Message]:
        """All but what was said to end it."""
        found = await self.engine.database.read(self._all, self._scope)
        return found[:-1]

    async def _work(self, *kinds: Kind) -> None:
        """Do what is due, and what will be, until nothing is. A model's work comes first, as it does in time."""
        wanted = kinds or (("digest",) if self._chat is None else ("observe", "reflect", "digest"))
        for kind in wanted:
            while (
                at := await self.engine.database.read_installation(job_rows.find_soonest, [kind], now=self._now)
            ) is not None:
                self._now = max(self._now, at)
                await self._do_one(kind)

    async def _do_one(self, kind: Kind) -> None:
        claim = await self.engine.database.write_installation(
            job_rows.claim, [kind], holder="benchmark", now=self._now, lease_ms=_LEASE_MS
        )
        if claim is None:
            return
        try:
            await attempt(self.engine, _KINDS[kind], claim, None if kind == "digest" else self._chat)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the claim, as in the worker
            self.failures += 1
            await self._endings.end_failed(claim, error)
        else:
            self._endings.note_success(claim)

    async def _found(self) -> Any:
        return await self.engine.database.read(threads.find, self._scope, THREAD)

    async def _rows(self) -> list[Observation]:
        thread = await self._found()
        return await self.engine.database.read(observations.read, self._scope, thread.thread_uid, "active")

    async def _all(self, tx: Tx, scope: Scope) -> list[Message]:
        thread = await threads.find(tx, scope, THREAD)
        return await message_pages.read_between(tx, scope, thread, after=0, upto=thread.next_seq, most=100_000)


def _read(engine: Engine, message: Message) -> tuple[str, int]:
    return "\n".join(text for part in message.parts for text in part_texts(part)), message.tokens
