"""The rows of the index in memory, by scope, and the rows that have a word."""

import hashlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text

from layerlore.storage.core.index_rows import CHUNK, SEQ, THREAD, IndexedRow, IndexedRows, RowIdArray, sort_distinct
from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import of_scope
from layerlore.storage.core.stamped_cache import StampedCache
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.sqlite.file import read_once

MOST_IDS = 1_000_000
"""The most row ids of all words together, those used last: 8 MB."""
_MOST_WORDS = 4_000

_STAMP = text(
    "SELECT (SELECT value FROM installation WHERE name = 'index_rows_removed'),"
    " (SELECT schema_version FROM pragma_schema_version), (SELECT coalesce(max(row_id), 0) FROM search_rows)"
)

Read = Callable[[str, int], Awaitable[RowIdArray]]
"""Reads the row ids, ascending, that fit a query and lie behind an id."""


@dataclass(frozen=True, slots=True)
class RowStamp:
    """The identity of a snapshot of the index: how many rows were removed so far, the schema's version, since a
    migration may make all rows anew, and the last id."""

    removed: str
    schema: int
    last: int

    def follows(self, other: "RowStamp") -> bool:
        """Whether nothing but new rows has come since the other one."""
        return (self.removed, self.schema) == (other.removed, other.schema) and self.last >= other.last


class PostingCache:
    """Shared by all readers of one file. Only transactions that do not write use it, so it never holds uncommitted data.
    It keeps hashes of the words."""

    def __init__(self, most_ids: int = MOST_IDS) -> None:
        self._held = StampedCache[bytes, RowStamp, RowIdArray](_MOST_WORDS, size=len, most_size=most_ids)

    async def find(self, stamp: RowStamp, query: str, most: int, read: Read) -> RowIdArray:
        """The newest ``most`` rows that fit the query, ascending, as the transaction sees them whose stamp this is."""
        key = hashlib.blake2b(f"{most} {query}".encode(), digest_size=16).digest()
        held = self._held.find_any(key)
        if held is None or not stamp.follows(held[0]):
            row_ids = await read(query, 0)
        else:
            before, row_ids = held
            if before == stamp:
                return row_ids
            new = await read(query, before.last)
            if len(new):
                row_ids = np.concatenate([row_ids, new])[-most:]
        # All readers share the array.
        row_ids.setflags(write=False)
        return self._held.keep(key, stamp, row_ids)


async def read_stamp(tx: Tx) -> RowStamp | None:
    """The stamp of the transaction's snapshot, read once; None where nothing is counted."""
    row = await read_once(tx, _STAMP)
    if row is None or row[0] is None:
        return None
    return RowStamp(*row)


MOST_BYTES = 12 * 2**20
"""The most bytes of all scopes together, those used last. A scope that needs more than half of it is not cached: some
90,000 rows."""
_MOST_SCOPES = 1_000
_BYTES_OF_ROW = 68
_BYTES_OF_NAME = 200
# After more new rows than these, in any scopes, the scope's own are read anew.
_MOST_NEW = 2_000
# Room for the seqs of a thread.
_THREAD = 2**32

_SCOPE = "tenant_id = :tenant_id AND agent_id = :agent_id AND resource_id = :resource_id"
_COLUMNS = f"SELECT {', '.join(IndexedRow._fields)} FROM search_rows"  # noqa: S608 - constants
_ALL = text(f"{_COLUMNS} WHERE {_SCOPE} ORDER BY row_id LIMIT :most")
_NEW = text(f"{_COLUMNS} NOT INDEXED WHERE row_id > :last AND {_SCOPE} ORDER BY row_id")

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ScopeRows:
    """The rows of a scope by their ids; the messages that they are of as ascending ``keys``, and for each the place of
    its first chunk."""

    rows: IndexedRows
    keys: NDArray[np.int64]
    firsts: NDArray[np.int32]

    @classmethod
    def of(cls, rows: IndexedRows) -> "ScopeRows":
        """The rows, which ascend by their ids."""
        firsts = np.flatnonzero(rows.numbers[:, CHUNK] == 0)
        keys = _make_keys(rows)[firsts]
        order = np.argsort(keys, kind="stable")
        return cls(rows, keys[order], firsts[order].astype(np.int32))

    def join(self, new: IndexedRows) -> "ScopeRows":
        """These and the new ones, which share their names and have higher ids."""
        if not len(new):
            return self
        old = self.rows
        rows = IndexedRows(
            np.concatenate([old.row_ids, new.row_ids]),
            np.concatenate([old.said_at, new.said_at]),
            np.concatenate([old.numbers, new.numbers]),
            old.names,
        )
        added = ScopeRows.of(new)
        at = np.searchsorted(self.keys, added.keys)
        firsts = np.insert(self.firsts, at, added.firsts + len(old))
        return ScopeRows(rows, np.insert(self.keys, at, added.keys), firsts)

    def around(self, row_ids: RowIdArray, reach: int) -> IndexedRows:
        """The rows with these ids, and the first chunks of the messages of the same thread at most ``reach`` seqs before
        or after them; each once, ordered by thread, seq and chunk."""
        rows = self.rows
        if not len(rows):
            return rows
        # An id behind all of them gives the end: it is moved to the last row, which the next line compares.
        at = np.minimum(np.searchsorted(rows.row_ids, row_ids), len(rows) - 1)
        found = at[rows.row_ids[at] == row_ids]
        near = sort_distinct(_make_keys(rows, found)[:, None] + np.arange(-reach, reach + 1))
        beside = np.minimum(np.searchsorted(self.keys, near), max(len(self.keys) - 1, 0))
        if len(self.keys):
            found = sort_distinct(np.concatenate([found, self.firsts[beside[self.keys[beside] == near]]]))
        order = np.lexsort((rows.numbers[found, CHUNK], _make_keys(rows, found)))
        return rows.take(found[order])


def _make_keys(rows: IndexedRows, places: Places | slice = slice(None)) -> NDArray[np.int64]:
    """A number for each message, near for messages that stand near each other in a thread."""
    return rows.numbers[places, THREAD].astype(np.int64) * _THREAD + rows.numbers[places, SEQ]


class RowCache:
    """Shared by all readers of one file. Only transactions that do not write use it, so it never holds uncommitted data."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        # No stamp: too large to be kept. No rows: asked for once, not read yet.
        self._held = StampedCache[Scope, RowStamp | None, ScopeRows | None](
            _MOST_SCOPES, size=_count_bytes, most_size=most_bytes
        )
        # The names are shared by everything that was made of a scope's rows.
        self._joining = threading.Lock()

    async def find(self, tx: Tx, scope: Scope) -> ScopeRows | None:
        """The rows of the scope as the transaction sees them; None where they are not kept, or asked for the first time
        since some went: reading all of them must be worth it."""
        known = self._held.find_any(scope)
        before, held = known or (None, None)
        if known is not None and before is None:
            return None
        stamp = await read_stamp(tx)
        if stamp is None:
            return None
        if before is None:
            self._held.keep(scope, stamp, None)
            return None
        # The second request since the last removal: now reading all rows is worth it.
        if held is None:
            if (before.removed, before.schema) == (stamp.removed, stamp.schema):
                return await self._read_all(tx, scope, stamp)
        elif before == stamp:
            return held
        elif before.follows(stamp):
            # Another reader saw more than this one does.
            return None
        elif stamp.follows(before) and stamp.last - before.last <= _MOST_NEW:
            return await self._read_new(tx, scope, held, before, stamp)
        self._held.keep(scope, stamp, None)
        return None

    async def _read_all(self, tx: Tx, scope: Scope, stamp: RowStamp) -> ScopeRows | None:
        most = self._most // 2 // _BYTES_OF_ROW
        # One row more than may be kept shows that the scope is too large.
        rows = await tx.all(_ALL, **of_scope(scope), most=most + 1)
        if len(rows) > most:
            self._held.keep(scope, None, None)
            return None
        return self._held.keep(scope, stamp, ScopeRows.of(IndexedRows.of(rows)))

    async def _read_new(self, tx: Tx, scope: Scope, held: ScopeRows, before: RowStamp, stamp: RowStamp) -> ScopeRows:
        rows = await tx.all(_NEW, **of_scope(scope), last=before.last)
        with self._joining:
            made = held.join(IndexedRows.of(rows, held.rows.names))
        if _count_bytes(made) > self._most // 2:
            self._held.keep(scope, None, None)
        else:
            self._held.keep(scope, stamp, made)
        return made


def _count_bytes(held: ScopeRows | None) -> int:
    if held is None:
        return 0
    return len(held.rows) * _BYTES_OF_ROW + len(held.rows.names.texts) * _BYTES_OF_NAME
