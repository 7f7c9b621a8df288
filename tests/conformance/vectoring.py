"""Vectors for the storage tests: random ones, and rows that have them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.index import vectors
from layerlore.storage.index.vectors import NewVector, PendingRow, make_vector

from .building import ANA

DIMENSION = 64
MODEL = "model"

Floats = NDArray[np.float32]


def unit(count: int = 1, *, seed: int = 0, dimension: int = DIMENSION) -> Floats:
    """Vectors of unit length in any direction."""
    made = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    unit_length: Floats = made / np.linalg.norm(made, axis=1, keepdims=True)
    return unit_length


def code_of(vector: Floats) -> bytes:
    return np.packbits(vector > 0).tobytes()


def new(row_id: int, vector: Floats) -> NewVector:
    return make_vector(row_id, vector)


async def pending(database: Database, model: str = MODEL, *, after: int = 0, most: int = 1000) -> list[PendingRow]:
    return await database.read_installation(vectors.pending, model, after=after, most=most)


async def put(
    database: Database, row_ids: Sequence[int], floats: Floats, model: str = MODEL, *, scope: Scope = ANA
) -> int:
    news = [new(row_id, vector) for row_id, vector in zip(row_ids, floats, strict=True)]
    return await database.write(vectors.put, scope, model, floats.shape[1], news)


async def embed_all(database: Database, model: str = MODEL, *, scope: Scope = ANA, seed: int = 0) -> dict[int, Floats]:
    """Give each row of the scope that lacks one a random vector; by row id."""
    row_ids = [row.row_id for row in await pending(database, model) if row.scope == scope]
    floats = unit(len(row_ids), seed=seed)
    assert await put(database, row_ids, floats, model, scope=scope) == len(row_ids)
    return dict(zip(row_ids, floats, strict=True))
