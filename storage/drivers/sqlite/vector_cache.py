"""The vectors of rows in memory, those read last: a recall compares hundreds, and most of them again the next time.

They are kept as 16-bit fixed point, which moves a cosine by about 0.00001 and takes half of the memory and of the time.
Nothing changes a vector that is stored. They are forgotten where the count of the vectors that went, which the triggers
of the file keep, is another; see ``code_cache``.
"""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from layerlore.storage.core.row_ids import RowIdArray, sort_distinct
from layerlore.storage.core.transaction import ReadVectors
from layerlore.storage.drivers.sqlite.code_cache import Stamp

MOST_BYTES = 10 * 2**20
"""Of all scopes together: 10,240 vectors of 512 dimensions."""

Vectors = NDArray[np.float32]
_Fixed = NDArray[np.int16]
# No number of a vector of unit length is above 1.
_ONE = 32_767
_Key = tuple[str, ...]


class VectorCache:
    """Of one file, for all its readers. Made for transactions that only read: what others have not committed is never
    kept."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._known_by = ("", 0)
        self._clear(0)

    def _clear(self, dimension: int) -> None:
        self._kept = np.empty((self._most // (2 * dimension) if dimension else 0, dimension), np.int16)
        # Where each row's vector is kept, and whose each place is: the place that was filled first is filled again.
        self._places: dict[_Key, dict[int, int]] = {}
        self._owners: list[tuple[_Key, int]] = []
        self._next = 0

    async def find(
        self, stamp: Stamp, tokens: Sequence[str], model: str, row_ids: RowIdArray, read: ReadVectors
    ) -> tuple[RowIdArray, Vectors]:
        """The vectors, of unit length, that these rows have under the scope's tokens: row ids, ascending, and as many rows
        of float32, rounded whether they were kept or are read now. The rows must be there in the snapshot whose stamp
        this is."""
        key, known_by = (model, *tokens), (stamp.removed, stamp.schema)
        asked = sort_distinct(row_ids)
        with self._lock:
            if known_by != self._known_by:
                self._known_by = known_by
                self._clear(0)
            places = self._places.get(key, {})
            at = np.array([places.get(row_id, -1) for row_id in asked.tolist()], np.int64)
            kept = self._kept[at[at >= 0]]
        if len(kept) == len(asked):
            return asked, _widen(kept)
        found, vectors = await read(asked[at < 0])
        if not len(found):
            return (asked[at >= 0], _widen(kept)) if len(kept) else (found, vectors)
        fixed = np.rint(vectors * _ONE).astype(np.int16)
        with self._lock:
            if known_by == self._known_by:
                self._keep(key, found, fixed)
        if not len(kept):
            return found, _widen(fixed)
        row_ids = np.concatenate([asked[at >= 0], found])
        order = np.argsort(row_ids)
        return row_ids[order], _widen(np.concatenate([kept, fixed])[order])

    def _keep(self, key: _Key, row_ids: RowIdArray, vectors: _Fixed) -> None:
        if vectors.shape[1] != self._kept.shape[1]:
            self._clear(vectors.shape[1])
        most = len(self._kept)
        row_ids, vectors = row_ids[-most:], vectors[-most:]
        filled = (self._next + np.arange(len(row_ids))) % most
        for row_id, at in zip(row_ids.tolist(), filled.tolist(), strict=True):
            if at < len(self._owners):
                before, gone = self._owners[at]
                if self._places[before].get(gone) == at:
                    del self._places[before][gone]
                self._owners[at] = (key, row_id)
            else:
                self._owners.append((key, row_id))
            self._places.setdefault(key, {})[row_id] = at
        self._kept[filled] = vectors
        self._next = (self._next + len(row_ids)) % most


def _widen(fixed: _Fixed) -> Vectors:
    wide = fixed.astype(np.float32)
    wide *= np.float32(1 / _ONE)
    return wide
