"""Entries in the shortest words: an engine with a clock that only moves when told, and what callers do with it."""

from dataclasses import dataclass
from typing import Any

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.entries.remember_requests import RememberRequest, remember
from layerlore.memory.messages import addition
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.recall import memory_block as injected
from layerlore.memory.recall.recall import RecallRequest, recall
from layerlore.memory.recall.results import RecallResult
from layerlore.memory.removal import forget_requests, forget_text
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.core.transaction import Tx

ANA, BEN = Scope("t", "agent", "ana"), Scope("t", "agent", "ben")
NOW = 1_750_000_000_000
DAY = 86_400_000
COUNTER = load_counter()


@dataclass
class Memory:
    """An engine with a clock that only moves when told, and what callers do with it."""

    engine: Engine
    now: int = NOW
    numbers: int = 0

    def sent(self, tool: str = "remember") -> WriteRequest:
        return WriteRequest(Origin("test", tool))

    async def say(self, thread: str, *texts: str, role: str = "user", scope: Scope = ANA, **given: Any) -> None:
        raw = [{"role": role, "content": text, **given} for text in texts]
        await addition.add_messages(
            self.engine, scope, thread, raw, replace=bool(given), sent=self.sent("add_messages")
        )

    async def remember(self, content: str, *, thread: str = "main", scope: Scope = ANA, **given: Any) -> Json:
        return await remember(self.engine, scope, thread, RememberRequest(content, **given), sent=self.sent())

    async def forget(self, *ids: str, query: str = "", confirm: str = "") -> str:
        answer = await forget_requests.forget(
            self.engine, ANA, ids=ids, query=query, confirm=confirm, sent=self.sent("forget")
        )
        return forget_text.render_answer(answer)

    async def recall(self, query: str, **given: Any) -> RecallResult:
        return await recall(self.engine, ANA, RecallRequest([query], **given))

    async def found(self, query: str, **given: Any) -> list[str]:
        recalled = await self.recall(query, **given)
        return [hit.message.parts[0]["text"] for hit in recalled.hits]

    async def block(self, query: str) -> list[str]:
        """The lines of the entries that a context tells."""
        prepared = await injected.prepare_memory(self.engine, ANA, [query])
        if prepared is None:
            return []

        async def look(tx: Tx, scope: Scope) -> list[str]:
            recalled = await injected.find_memory(tx, self.engine, scope, prepared)
            return [injected.render_entry(entry, self.now) for entry in recalled.entries]

        return await self.engine.database.read(look, ANA)
