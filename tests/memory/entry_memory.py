"""Entries in the shortest words: an engine with a clock that only moves when told, and what callers do with it."""

from dataclasses import dataclass
from typing import Any

from layerlore.memory import adding, forgetting
from layerlore.memory import memory_block as injected
from layerlore.memory.engine import Engine, Sent
from layerlore.memory.recall import Recalled, RecallRequest, recall
from layerlore.memory.remembering import Told, remember
from layerlore.memory.search_text import query_words
from layerlore.memory.tokens import load_counter
from layerlore.storage.records import Json, Origin, Scope
from layerlore.storage.transaction import Tx

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

    def sent(self, tool: str = "remember") -> Sent:
        return Sent(Origin("test", tool))

    async def say(self, thread: str, *texts: str, role: str = "user", **given: Any) -> None:
        raw = [{"role": role, "content": text, **given} for text in texts]
        await adding.add_messages(self.engine, ANA, thread, raw, replace=bool(given), sent=self.sent("add_messages"))

    async def remember(self, content: str, *, thread: str = "main", scope: Scope = ANA, **given: str) -> Json:
        return await remember(self.engine, scope, thread, Told(content, **given), sent=self.sent())

    async def forget(self, *ids: str, query: str = "", confirm: str = "") -> str:
        return await forgetting.forget(
            self.engine, ANA, ids=ids, query=query, confirm=confirm, sent=self.sent("forget")
        )

    async def recall(self, query: str, **given: Any) -> Recalled:
        return await recall(self.engine, ANA, RecallRequest([query], **given))

    async def found(self, query: str, **given: Any) -> list[str]:
        recalled = await self.recall(query, **given)
        return [hit.message.parts[0]["text"] for hit in recalled.hits]

    async def block(self, query: str) -> list[str]:
        made = (await self.engine.embedding.query(query))[0] if self.engine.embedding else None

        async def look(tx: Tx, scope: Scope) -> list[str]:
            words, vector = query_words(query), made.vector if made else None
            return await injected.memory_block(tx, self.engine, ANA, words, vector, now=self.now)

        return await self.engine.database.read(look, ANA)
