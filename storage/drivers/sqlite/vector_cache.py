"""Vectors and their codes in memory, where comparing takes a tenth of reading them."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import TextClause, text

from layerlore.storage.core.index_rows import RowIdArray, round_vectors, sort_distinct, widen_vectors
from layerlore.storage.core.stamped_cache import StampedCache
from layerlore.storage.core.transaction import ReadVectors, Tx
from layerlore.storage.drivers.sqlite.file import read_once

MOST_CODE_BYTES = 32 * 2**20
"""The most bytes of all scopes together, those used last. A scope that needs more than half of it is not cached."""
_MOST_SCOPES = 1_000
# After more new rows than these, in any scopes, the scope's own are read anew.
_MOST_NEW = 2_000
# Codes compared at once: their parts stay in the processor's cache.
_AT_ONCE = 16_384

_STAMP = text(
    "SELECT (SELECT value FROM installation WHERE name = 'vectors_removed'),"
    " (SELECT schema_version FROM pragma_schema_version), (SELECT coalesce(max(rowid), 0) FROM search_vectors)"
)
# Both lists are made row by row, so that they have one order.
_COLUMNS = "SELECT count(*), group_concat(row_id), CAST(group_concat(code, '') AS BLOB) FROM search_vectors"
_OF_SCOPE = "scope_token = :scope_token AND model = :model"
_ALL = text(f"{_COLUMNS} WHERE {_OF_SCOPE}")
_NEW = text(f"{_COLUMNS} NOT INDEXED WHERE rowid > :last AND {_OF_SCOPE}")

Words = NDArray[np.uint64]
_CodeKey = tuple[str, str, int]
"""A scope's token, a model, and the bytes of a code."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The identity of a snapshot of the file: how many vectors were removed so far, the schema's version, and the
    last row id of SQLite's own."""

    removed: str
    schema: int
    last: int

    def follows(self, other: "Stamp") -> bool:
        """Whether nothing but new rows has come since the other one."""
        return (self.removed, self.schema) == (other.removed, other.schema) and self.last >= other.last


@dataclass(frozen=True, slots=True)
class ScopeCodes:
    """Row ids, and their codes as [words, rows]: the first 64 bits of each, then the next."""

    row_ids: RowIdArray
    words: Words

    @property
    def size(self) -> int:
        return self.row_ids.nbytes + self.words.nbytes

    def join(self, new: "ScopeCodes") -> "ScopeCodes":
        """These and the new ones."""
        return ScopeCodes(
            np.concatenate([self.row_ids, new.row_ids]),
            np.concatenate([self.words, new.words], axis=1),
        )

    def distances(self, code: bytes) -> NDArray[np.uint16]:
        """In how many bits each code differs from this one."""
        code_words = _split(code, len(code))[:, 0]
        found = np.zeros(len(self.row_ids), np.uint16)
        for at in range(0, len(found), _AT_ONCE):
            part = found[at : at + _AT_ONCE]
            for word, of_rows in zip(code_words, self.words, strict=True):
                part += np.bitwise_count(of_rows[at : at + _AT_ONCE] ^ word)
        return found


class CodeCache:
    """Shared by all readers of one file. Only transactions that do not write use it, so it never holds uncommitted data."""

    def __init__(self, most_bytes: int = MOST_CODE_BYTES) -> None:
        self._most = most_bytes
        # No codes: too large to be kept.
        self._held = StampedCache[_CodeKey, Stamp, ScopeCodes | None](
            _MOST_SCOPES, size=lambda held: 0 if held is None else held.size, most_size=most_bytes
        )

    async def find(self, tx: Tx, scope_token: str, model: str, bytes_each: int) -> ScopeCodes | None:
        """The codes under the token, as the transaction sees them; None where they are not kept."""
        key = (scope_token, model, bytes_each)
        before, held = self._held.find_any(key) or (None, None)
        if before is not None and held is None:
            return None
        stamp = await read_code_stamp(tx)
        if stamp is None:
            return None
        if held is not None and before == stamp:
            return held
        of_scope = {"scope_token": scope_token, "model": model}
        if held is None or before is None or not stamp.follows(before) or stamp.last - before.last > _MOST_NEW:
            read = await _read(tx, _ALL, bytes_each, **of_scope)
        else:
            new = await _read(tx, _NEW, bytes_each, **of_scope, last=before.last)
            if new is None:
                read = None
            else:
                read = held.join(new)
        if read is not None:
            self._held.keep(key, stamp, None if read.size > self._most // 2 else read)
        return read


def pick_nearest(held: Sequence[ScopeCodes], code: bytes, most: int) -> RowIdArray:
    """The rows whose codes differ from this one in the fewest bits, nearest first; of equally near ones the oldest
    first."""
    row_ids = np.concatenate([each.row_ids for each in held])
    distances = np.concatenate([each.distances(code) for each in held])
    if 0 < most < len(row_ids):
        # The smallest distance within which at least ``most`` rows lie, so that fewer rows are sorted.
        farthest = int(np.searchsorted(np.cumsum(np.bincount(distances)), most))
        near = np.flatnonzero(distances <= farthest)
        row_ids, distances = row_ids[near], distances[near]
    return row_ids[np.lexsort((row_ids, distances))[:most]]


async def read_code_stamp(tx: Tx) -> Stamp | None:
    """The stamp of the transaction's snapshot, read once; None where nothing is counted."""
    row = await read_once(tx, _STAMP)
    if row is None or row[0] is None:
        return None
    return Stamp(*row)


async def _read(tx: Tx, statement: TextClause, bytes_each: int, **values: Any) -> ScopeCodes | None:
    """None where codes have another length than is requested."""
    row = await tx.one(statement, **values)
    assert row is not None
    count, row_ids, codes = row
    if len(codes or b"") != count * bytes_each:
        return None
    return ScopeCodes(np.fromstring(row_ids or "", np.int64, sep=","), _split(codes or b"", bytes_each))


def _split(codes: bytes, bytes_each: int) -> Words:
    """Codes of equal length as [words, rows], with zeros behind their last byte."""
    rows = np.frombuffer(codes, np.uint8).reshape(-1, bytes_each)
    padded = np.zeros((len(rows), -(-bytes_each // 8) * 8), np.uint8)
    padded[:, :bytes_each] = rows
    return np.ascontiguousarray(padded.view(np.uint64).T)


MOST_BYTES = 10 * 2**20
"""The bytes of all scopes together: 10,240 vectors of 512 dimensions."""

Vectors = NDArray[np.float32]
_Fixed = NDArray[np.int16]
_Key = tuple[str, ...]


class VectorCache:
    """Shared by all readers of one file. Only transactions that do not write use it, so it never holds uncommitted data."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._known_by = ("", 0)
        self._clear(0)

    def _clear(self, dimension: int) -> None:
        self._kept = np.empty((self._most // (2 * dimension) if dimension else 0, dimension), np.int16)
        # Where each row's vector is stored, and whose each place is: the place that was filled first is filled again.
        self._places: dict[_Key, dict[int, int]] = {}
        self._owners: list[tuple[_Key, int]] = []
        self._next = 0

    async def find(
        self, stamp: Stamp, tokens: Sequence[str], model: str, row_ids: RowIdArray, read: ReadVectors
    ) -> tuple[RowIdArray, Vectors]:
        """The vectors, of unit length, that these rows have under the scope's tokens: row ids, ascending, and as many rows
        of float32, rounded whether they come from the cache or from the file. The rows must be there in the snapshot
        whose stamp this is."""
        key, known_by = (model, *tokens), (stamp.removed, stamp.schema)
        wanted = sort_distinct(row_ids)
        with self._lock:
            # Rows were removed, or all were made anew: an id may belong to another vector now.
            if known_by != self._known_by:
                self._known_by = known_by
                self._clear(0)
            places = self._places.get(key, {})
            at = np.array([places.get(row_id, -1) for row_id in wanted.tolist()], np.int64)
            kept = self._kept[at[at >= 0]]
        if len(kept) == len(wanted):
            return wanted, widen_vectors(kept)
        found, vectors = await read(wanted[at < 0])
        if not len(found):
            if len(kept):
                return (wanted[at >= 0], widen_vectors(kept))
            return (found, vectors)
        fixed = round_vectors(vectors)
        # The vectors were read without the lock, so another reader may have seen a newer file meanwhile.
        with self._lock:
            if known_by == self._known_by:
                self._keep(key, found, fixed)
        if not len(kept):
            return found, widen_vectors(fixed)
        row_ids = np.concatenate([wanted[at >= 0], found])
        order = np.argsort(row_ids)
        return row_ids[order], widen_vectors(np.concatenate([kept, fixed])[order])

    def _keep(self, key: _Key, row_ids: RowIdArray, vectors: _Fixed) -> None:
        if vectors.shape[1] != self._kept.shape[1]:
            self._clear(vectors.shape[1])
        most = len(self._kept)
        row_ids, vectors = row_ids[-most:], vectors[-most:]
        filled = (self._next + np.arange(len(row_ids))) % most
        for row_id, at in zip(row_ids.tolist(), filled.tolist(), strict=True):
            if at < len(self._owners):
                before, gone = self._owners[at]
                # The row may have got another place meanwhile, which stays.
                if self._places[before].get(gone) == at:
                    del self._places[before][gone]
                self._owners[at] = (key, row_id)
            else:
                self._owners.append((key, row_id))
            self._places.setdefault(key, {})[row_id] = at
        self._kept[filled] = vectors
        self._next = (self._next + len(row_ids)) % most
