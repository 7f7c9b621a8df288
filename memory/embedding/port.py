"""The interface of an embedder: text in, one vector of unit length for each text out."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from layerlore.memory.embedding.relevance import Calibration
from layerlore.storage.core.errors import LayerloreError

Vectors = NDArray[np.float32]

CLOSED = "the embedder has been closed"


class EmbeddingFailed(LayerloreError):
    """No vectors, and why: fit for an answer, since it repeats neither texts nor keys.

    ``refused``: the model was reached and did not accept what it was sent, so sending the same again does not help.
    """

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


class Embedder(Protocol):
    """Safe from any thread; everything that takes time is in ``load`` and ``embed``, which block."""

    @property
    def name(self) -> str:
        """The name under which vectors are stored: vectors of two names are never compared."""

    @property
    def dimension(self) -> int:
        """Numbers in a vector; 0 while a remote model has not answered yet."""

    @property
    def languages(self) -> str:
        """Which languages it serves, for people."""

    @property
    def local(self) -> bool:
        """Whether texts stay on this machine, so that a vector takes milliseconds and costs nothing."""

    @property
    def weight(self) -> float:
        """How much its cosine counts beside the words, when both are divided by their largest."""

    @property
    def squeezed(self) -> bool:
        """Whether its cosines all lie close to 1, so that their place between least and largest counts instead."""

    @property
    def calibration(self) -> Calibration | None:
        """The relevance that its cosines stand for; None if it was not measured."""

    def load(self) -> None:
        """Make the first ``embed`` as fast as the others; a second time it does nothing. Raises EmbeddingFailed."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """[len(texts), dimension] in the order of the texts, each row of length 1. Any text will do: what is too long
        counts with its beginning. Loads first if need be. Raises EmbeddingFailed."""


def clip_text(text: str, most: int) -> str:
    """The first ``most`` characters, lone halves of surrogate pairs replaced: they are in no encoding."""
    return text[:most].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def normalize_rows(values: Any, rows: int, dimension: int) -> Vectors:
    """Vectors as float32 of length 1. ``dimension`` 0 accepts any. Raises EmbeddingFailed for anything else."""
    try:
        if rows:
            # Lengths are computed in float64: squares of very large or small numbers overflow or vanish in float32.
            vectors = np.array(values, dtype=np.float64).reshape(rows, -1)
        else:
            vectors = np.zeros((0, dimension))
    except (TypeError, ValueError):
        raise EmbeddingFailed("the model answered with vectors of different lengths, or with none") from None
    if dimension and vectors.shape[1] != dimension:
        raise EmbeddingFailed(f"the model answered with {vectors.shape[1]} dimensions, expected are {dimension}")
    lengths: Any = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise EmbeddingFailed("the model answered with a vector that has no direction (zeros, NaN or infinities)")
    result: Vectors = (vectors / lengths).astype(np.float32)
    return result
