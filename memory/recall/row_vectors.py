"""Makes the vectors of rows of the index and stores them.

A vector is stored only for a row that is still there. A message that changes gets new rows, with ids that no row had, so
that a vector never stands for another text than its row's.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

import numpy as np

from layerlore.memory.embedding.port import Vectors
from layerlore.memory.embedding.row_queue import BATCH_ROWS
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.engine.engine import Engine
from layerlore.storage.core.records import Message, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.index import embedders, vectors
from layerlore.storage.index.vectors import NewVector, PendingRow
from layerlore.storage.messages import indexed_rows


async def embed_awaited(engine: Engine, embedding: EmbeddingService, rows: Sequence[PendingRow]) -> None:
    """Embed rows of a scope that somebody waits for, unless that is under way. Raises EmbeddingFailed,
    StorageUnavailable."""
    await embedding.rows.embed(rows, partial(_embed, engine, embedding))


async def embed_page(engine: Engine, embedding: EmbeddingService, rows: Sequence[PendingRow]) -> int:
    """Embed rows of any scopes that nobody waits for: with a model on this machine a few at a time, behind those that are
    waited for. Returns how many have a vector now. Raises EmbeddingFailed, StorageUnavailable."""
    if not embedding.embedder.local:
        return len(await _embed(engine, embedding, rows))
    done = 0
    for some in _group_by_scope(rows).values():
        for at in range(0, len(some), BATCH_ROWS):
            await embedding.make_way()
            done += await embedding.rows.embed(some[at : at + BATCH_ROWS], partial(_embed, engine, embedding))
    return done


async def _embed(engine: Engine, embedding: EmbeddingService, rows: Sequence[PendingRow]) -> set[int]:
    """Embed the texts of those rows that have no vector yet, as their messages have them now, and store the vectors.
    Returns which of the rows have one now."""
    read: list[tuple[PendingRow, Message]] = []
    made: set[int] = set()
    for scope, some in _group_by_scope(rows).items():
        lacking = await engine.database.read(_read_lacking, scope, embedding.embedder.name, some)
        read += lacking.items()
        made |= {row.row_id for row in some if row not in lacking}
    if not read:
        return made
    found, texts = await asyncio.to_thread(_find_texts, engine, embedding, read)
    new: dict[Scope, list[NewVector]] = {}
    for row, vector in zip(found, await embedding.embed(texts), strict=True):
        if vector is None:
            embedding.refused.setdefault(row.scope, set()).add(row.row_id)
        else:
            new.setdefault(row.scope, []).append(_new_vector(row, vector))
    model, dimension = embedding.embedder.name, embedding.embedder.dimension
    for scope, vectors_of_scope in new.items():
        agreed, _ = await engine.database.write(_store, scope, model, dimension, vectors_of_scope)
        embedding.expect(agreed)
        made |= {each.row_id for each in vectors_of_scope if agreed == dimension}
    return made


def _group_by_scope(rows: Sequence[PendingRow]) -> dict[Scope, list[PendingRow]]:
    found: dict[Scope, list[PendingRow]] = {}
    for row in rows:
        found.setdefault(row.scope, []).append(row)
    return found


async def _read_lacking(tx: Tx, scope: Scope, model: str, rows: Sequence[PendingRow]) -> dict[PendingRow, Message]:
    """The rows that still have no vector, with their messages."""
    lacking = await vectors.find_lacking(tx, scope, model, [row.row_id for row in rows])
    places = {row: (row.thread_uid, row.seq) for row in rows if row.row_id in lacking}
    messages = await indexed_rows.messages_to_index(tx, scope, [*places.values()])
    return {row: messages[place] for row, place in places.items() if place in messages}


def _find_texts(
    engine: Engine, embedding: EmbeddingService, read: Sequence[tuple[PendingRow, Message]]
) -> tuple[list[PendingRow], list[str]]:
    """The rows that have a text, and it."""
    texts: dict[tuple[Scope, str, int], list[str]] = {}
    found: list[PendingRow] = []
    chunks: list[str] = []
    for row, message in read:
        place = (row.scope, row.thread_uid, row.seq)
        if place not in texts:
            texts[place] = engine.embedded_texts_of(message)
        if row.chunk < len(texts[place]) and row.row_id not in embedding.refused.get(row.scope, ()):
            found.append(row)
            chunks.append(texts[place][row.chunk])
    return found, chunks


async def _store(tx: Tx, scope: Scope, model: str, dimension: int, new: list[NewVector]) -> tuple[int, int]:
    """How many dimensions the model's vectors have, and how many of these were stored: none, if they have others."""
    agreed = await embedders.agree_on_dimension(tx, model, dimension)
    return agreed, await vectors.put(tx, scope, model, dimension, new) if agreed == dimension else 0


def _new_vector(row: PendingRow, vector: Vectors) -> NewVector:
    return NewVector(row.row_id, np.packbits(vector > 0).tobytes(), vector.astype("<f4").tobytes())
