"""A run as a server lives with it, in this process: its messages come in through the server's own function, turn by turn,
and its background work is done at the times that the messages say, to its end. The clock moves instead of waiting."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime

from benchmarks.long_runs.planting import LongRun
from layerlore.extraction.chat.chat_port import Chat
from layerlore.extraction.jobs.registry import make_kinds
from layerlore.extraction.jobs.worker import Endings, NoModel, attempt
from layerlore.extraction.kinds.kind import MODEL_KINDS, Kind
from layerlore.memory.context.context import Format, get_context
from layerlore.memory.context.context_answers import ContextAnswer, ProviderContext
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages.addition import add_messages
from layerlore.memory.parts.parts import part_texts
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import load_settings
from layerlore.storage.core.records import Json, Message, Origin, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs import job_rows
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads

THREAD = "main"
_SENT = WriteRequest(Origin("benchmark", "add_messages"))
_LEASE_MS = 3_600_000
_AT_REST_MS = 3_600_000
_MOST_MESSAGES = 100_000


class Played:
    """A thread that holds a run. ``done`` and ``failures``: attempts of jobs that ended well, and others, by kind."""

    def __init__(self, engine: Engine, chat: Chat | None) -> None:
        self._now = 0
        self.engine = replace(engine, now=lambda: self._now)
        self.failures: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self._chat = chat
        self._scope = Scope(LOCAL_TENANT, "default", "default")
        self._endings = Endings(self.engine, lambda: 0.0)
        self._kinds = {kind.name: kind for kind in make_kinds()}
        request: list[Kind] = [
            name for name in self._kinds if chat is not None and name in MODEL_KINDS and chat.model(name)
        ]
        # As a worker has them: what no model is there for is done without, if it can be.
        self._lanes: list[tuple[list[Kind], Chat | None]] = [
            (request, chat),
            ([name for name in self._kinds if name not in request], None),
        ]

    async def play(self, run: LongRun) -> None:
        for turn in run.turns:
            for call in turn.calls:
                await self.add(call)
        await self._work_until(None)
        self._now += _AT_REST_MS

    async def add(self, messages: Sequence[Json]) -> None:
        """Do what is due until the messages come, and add them."""
        await self._work_until(_ms(messages[0]["created_at"]))
        self._now = _ms(messages[-1]["created_at"])
        await add_messages(self.engine, self._scope, THREAD, messages, replace=False, sent=_SENT)

    async def context(self, max_tokens: int) -> str:
        """What the next model call would see, as text."""
        answer = await self.shaped_context(max_tokens, "text")
        assert isinstance(answer, str)
        return answer

    async def shaped_context(self, max_tokens: int, format: Format) -> str | ContextAnswer | ProviderContext:
        """What the next model call would see, in the shape of a provider."""
        return await get_context(self.engine, self._scope, THREAD, query="", max_tokens=max_tokens, format=format)

    async def newest(self, rooms: Sequence[int]) -> list[str]:
        """The newest messages that fit in each room, whole, and nothing else."""
        messages = await self.engine.database.read(self._read_all, self._scope)
        found = []
        for room in rooms:
            kept: list[str] = []
            left = room
            for message in reversed(messages):
                left -= message.tokens
                if left < 0:
                    break
                kept.append("\n".join(text for part in message.parts for text in part_texts(part)))
            found.append("\n".join(reversed(kept)))
        return found

    async def tokens(self) -> int:
        """Of all messages."""
        return sum(message.tokens for message in await self.engine.database.read(self._read_all, self._scope))

    async def _work_until(self, until: int | None) -> None:
        """Do what is due until then; without a time, all that ever will be."""
        while True:
            soonest = [await self._find_soonest(kinds) for kinds, _ in self._lanes]
            due = [(at, place) for place, at in enumerate(soonest) if at is not None and (until is None or at <= until)]
            if not due:
                return
            at, place = min(due)
            self._now = max(self._now, at)
            await self._do_one(*self._lanes[place])

    async def _find_soonest(self, kinds: list[Kind]) -> int | None:
        if not kinds:
            return None
        return await self.engine.database.read_installation(job_rows.find_soonest, kinds, now=self._now)

    async def _do_one(self, kinds: list[Kind], chat: Chat | None) -> None:
        claim = await self.engine.database.write_installation(
            job_rows.claim, kinds, holder="benchmark", now=self._now, lease_ms=_LEASE_MS
        )
        if claim is None:
            return
        try:
            await attempt(self.engine, self._kinds[claim.kind], claim, chat)
        except NoModel as error:
            kinds.remove(claim.kind)
            await self._endings.end_failed(claim, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the claim, as in the worker
            self.failures[claim.kind] += 1
            await self._endings.end_failed(claim, error)
        else:
            self.done[claim.kind] += 1
            self._endings.note_success(claim)

    async def _read_all(self, tx: Tx, scope: Scope) -> list[Message]:
        thread = await threads.find(tx, scope, THREAD)
        return await message_pages.read_between(tx, scope, thread, after=0, upto=thread.next_seq, most=_MOST_MESSAGES)


@contextlib.asynccontextmanager
async def played(run: LongRun, chat: Chat | None, **settings: Json) -> AsyncIterator[Played]:
    """The run on a store of its own, at rest."""
    chosen: Json = {"database": "sqlite://:memory:", "embedding": {"embedder": "none"}, **settings}
    engine = await open_engine(load_settings(chosen, environ={}))
    try:
        found = Played(engine, chat)
        await found.play(run)
        yield found
    finally:
        await close_engine(engine)


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)
