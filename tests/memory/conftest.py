"""Memories for the tests of entries."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from told_embedder import ToldEmbedder

from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.engine.engine import Engine
from layerlore.memory.rules.validation import Limits
from layerlore.memory.secrets.redaction import Redactor
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.storage.core.transaction import Database

from .entry_memory import COUNTER, Memory


@pytest.fixture
async def embedding() -> AsyncIterator[EmbeddingService]:
    opened = EmbeddingService(ToldEmbedder(), patience_ms=10_000)
    yield opened
    await opened.close()


@pytest.fixture
def memory_of(database: Database) -> Callable[..., Memory]:
    def made(embedding: EmbeddingService | None = None, **given: Any) -> Memory:
        memory: Memory

        def new_id() -> str:
            memory.numbers += 1
            return f"00000000-0000-7000-8000-{memory.numbers:012}"

        engine = Engine(
            database=database,
            tokens=COUNTER,
            redactor=Redactor(b"k" * 32),
            hmac_key=b"k" * 32,
            limits=Limits(),
            redaction="all",
            deleted_days=30,
            now=lambda: memory.now,
            new_id=new_id,
            # These tests are not about how sure an answer is.
            recall=RecallRules(sure=0, lexical_sure=0),
            embedding=embedding,
            **given,
        )
        memory = Memory(engine)
        return memory

    return made


@pytest.fixture
def memory(memory_of: Callable[..., Memory]) -> Memory:
    """Without an embedder."""
    return memory_of()
