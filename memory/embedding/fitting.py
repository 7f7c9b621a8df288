"""What goes into a model, and what may come out of one."""

from typing import Any

import numpy as np

from layerlore.memory.embedding.port import EmbeddingFailed, Vectors


def fit(text: str, most: int) -> str:
    """The first ``most`` characters, lone halves of surrogate pairs replaced: they are in no encoding."""
    return text[:most].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def unit_rows(values: Any, rows: int, dimension: int) -> Vectors:
    """Vectors as float32 of length 1. ``dimension`` 0 accepts any. Raises EmbeddingFailed for what are none."""
    try:
        vectors = np.array(values, dtype=np.float64).reshape(rows, -1) if rows else np.zeros((0, dimension))
    except (TypeError, ValueError):
        raise EmbeddingFailed("the model answered with vectors of different lengths, or with none") from None
    if dimension and vectors.shape[1] != dimension:
        raise EmbeddingFailed(f"the model answered with {vectors.shape[1]} dimensions, expected are {dimension}")
    lengths: Any = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise EmbeddingFailed("the model answered with a vector that has no direction (zeros, NaN or infinities)")
    result: Vectors = (vectors / lengths).astype(np.float32)
    return result
