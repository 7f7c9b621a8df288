"""Fills a store directly, faster than any client could: messages by the server's own function, vectors beside them.

So the vectors need not be computed anew for each message: a made-up message takes the mean of its sentences' vectors.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines import Embeds, embedded
from benchmarks.conversations import Json
from benchmarks.embedders import EMBEDDER_SETTING
from benchmarks.sample_text import SPEAKERS, SampleText
from layerlore.memory.embedding.port import Embedder
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages.addition import add_messages
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.runtime.engines import open_engine
from layerlore.server.settings.settings import load_settings
from layerlore.storage.core.records import Origin, Scope
from layerlore.storage.index import vectors
from layerlore.storage.index.vectors import make_vector

AGENT = "default"
MESSAGES_PER_TRANSACTION = 1000
SENTENCES = 2000
# Words of a sentence that mean something; two sentences make a message.
_SENTENCE_WORDS = (2, 10)
SENT = WriteRequest(Origin("benchmark", "fill"))


class NotFilled(Exception):
    """A message did not become as many rows of the index as it was filled with."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A message as add_messages takes it, short enough to be one chunk, and its vector (None: without vectors)."""

    message: Json
    vector: NDArray[np.float32] | None


class Pool:
    """Made-up messages: any two of some sentences, which are embedded once."""

    def __init__(self, embedder: Embeds | None, sentences: int = SENTENCES) -> None:
        text = SampleText(1)
        self._random = random.Random(1)
        self._sentences = [text.text(*_SENTENCE_WORDS) for _ in range(sentences)]
        self._vectors = embedded(embedder, self._sentences) if embedder else None

    def drawn(self, count: int) -> list[Filled]:
        """So many messages, mostly distinct ones."""
        return [self._one() for _ in range(count)]

    def _one(self) -> Filled:
        first, second = self._random.choices(range(len(self._sentences)), k=2)
        content = f"{self._sentences[first]} {self._sentences[second]}"
        message = {"role": "user", "name": self._random.choice(SPEAKERS), "content": content}
        if self._vectors is None:
            return Filled(message, None)
        return Filled(message, unit(self._vectors[first] + self._vectors[second]))


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same direction, length 1."""
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


class Store:
    """An open store that is filled; no server needs to run on it, and none may be embedding there."""

    def __init__(self, engine: Engine, embedder: Embedder | None, last_row: int) -> None:
        self.engine = engine
        self._embedder = embedder
        self._last_row = last_row

    async def fill(self, resource: str, thread: str, filled: Sequence[Filled]) -> None:
        """Append to a thread of a resource. Raises NotFilled."""
        scope = Scope(LOCAL_TENANT, AGENT, resource)
        for at in range(0, len(filled), MESSAGES_PER_TRANSACTION):
            part = filled[at : at + MESSAGES_PER_TRANSACTION]
            raw = [each.message for each in part]
            answer = await add_messages(self.engine, scope, thread, raw, replace=False, sent=SENT)
            if self._embedder is not None:
                seqs = [stored["seq"] for stored in answer["messages"]]
                await self._put(scope, dict(zip(seqs, part, strict=True)))

    async def _put(self, scope: Scope, by_seq: dict[int, Filled]) -> None:
        assert self._embedder is not None
        name = self._embedder.name
        # One more than expected shows whether a message became several rows.
        rows = await self.engine.database.read_installation(
            vectors.pending, name, after=self._last_row, most=len(by_seq) + 1
        )
        if [row.seq for row in rows] != sorted(by_seq):
            raise NotFilled(f"{len(by_seq)} messages became {len(rows)} rows of the index; one each was expected")
        new = [make_vector(row.row_id, vector) for row in rows if (vector := by_seq[row.seq].vector) is not None]
        await self.engine.database.write(vectors.put, scope, name, self._embedder.dimension, new)
        # The next look begins behind these rows, so that it need not pass over all of them.
        self._last_row = rows[-1].row_id


@contextlib.asynccontextmanager
async def opened_engine(folder: Path, **variables: str) -> AsyncIterator[Engine]:
    """An engine that a server with its data in ``folder`` and these settings (by their variables' names) has. One that
    is filled at once need not be safe from a power cut."""
    names = {"DATA_DIR": str(folder), "REDACTION": "off", "SQLITE__SYNCHRONOUS": "NORMAL", **variables}
    engine = await open_engine(load_settings(environ={f"LAYERLORE_{name}": value for name, value in names.items()}))
    try:
        yield engine
    finally:
        if engine.embedding is not None:
            await engine.embedding.close()
        await engine.database.close()


@contextlib.asynccontextmanager
async def opened(folder: Path, database: str, embedder: Embedder | None) -> AsyncIterator[Store]:
    """The store that a server with its data in ``folder`` (or with ``database``) has."""
    variables = {
        "DATABASE": database,
        # The server must not make the vectors meanwhile that are put beside the messages.
        EMBEDDER_SETTING: "none",
        # The limit is for callers: here a call has as many messages as a transaction.
        "LIMITS__MESSAGES_PER_CALL": str(MESSAGES_PER_TRANSACTION),
    }
    async with opened_engine(folder, **variables) as engine:
        yield Store(engine, embedder, await engine.database.read_installation(vectors.last_row))
