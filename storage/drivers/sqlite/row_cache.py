"""The rows of the index in memory, by scope, and the rows that have a word."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text

from layerlore.storage.core.index_rows import CHUNK, SEQ, THREAD, IndexedRow, IndexedRows, RowIdArray, sort_distinct
from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import of_scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.sqlite.file import read_once

MOST_IDS = 1_000_000
"""Row ids of all words together, those asked last: 8 MB."""
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


@dataclass(frozen=True, slots=True)
class _Posting:
    stamp: RowStamp
    row_ids: RowIdArray


class PostingCache:
    """Of one file, for all its readers. Made for transactions that only read: what others have not committed is never
    kept. It keeps hashes of the words."""

    def __init__(self, most_ids: int = MOST_IDS) -> None:
        self._most = most_ids
        self._held: OrderedDict[bytes, _Posting] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    async def find(self, stamp: RowStamp, query: str, most: int, read: Read) -> RowIdArray:
        """The newest ``most`` rows that fit the query, ascending, as the transaction sees them whose stamp this is."""
        key = hashlib.blake2b(f"{most} {query}".encode(), digest_size=16).digest()
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
        if held is not None and held.stamp == stamp:
            return held.row_ids
        if held is None or not stamp.follows(held.stamp):
            row_ids = await read(query, 0)
        else:
            new = await read(query, held.stamp.last)
            row_ids = np.concatenate([held.row_ids, new])[-most:] if len(new) else held.row_ids
        row_ids.setflags(write=False)
        self._keep(key, _Posting(stamp, row_ids))
        return row_ids

    def _keep(self, key: bytes, posting: _Posting) -> None:
        with self._lock:
            before = self._held.pop(key, None)
            self._held[key] = posting
            self._total += len(posting.row_ids) - (len(before.row_ids) if before is not None else 0)
            while self._total > self._most or len(self._held) > _MOST_WORDS:
                _, gone = self._held.popitem(last=False)
                self._total -= len(gone.row_ids)


async def read_stamp(tx: Tx) -> RowStamp | None:
    """The stamp of the transaction's snapshot, read once; None where nothing is counted."""
    row = await read_once(tx, _STAMP)
    if row is None or row[0] is None:
        return None
    return RowStamp(*row)


MOST_BYTES = 12 * 2**20
"""Of all scopes together, those asked last. A scope that has more than half of it is not kept: 90,000 rows or so."""
_MOST_SCOPES = 1_000
_BYTES_OF_ROW = 68
_BYTES_OF_NAME = 200
# Behind more new rows than these, of whatever scope, the scope's own are read anew.
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
    """The rows of a scope as ``stamp`` found them, by their ids; the messages that they are of as ascending ``keys``, and
    for each the place of its first chunk."""

    stamp: RowStamp
    rows: IndexedRows
    keys: NDArray[np.int64]
    firsts: NDArray[np.int32]

    @classmethod
    def of(cls, stamp: RowStamp, rows: IndexedRows) -> "ScopeRows":
        """The rows, which ascend by their ids."""
        firsts = np.flatnonzero(rows.numbers[:, CHUNK] == 0)
        keys = _make_keys(rows)[firsts]
        order = np.argsort(keys, kind="stable")
        return cls(stamp, rows, keys[order], firsts[order].astype(np.int32))

    def join(self, stamp: RowStamp, new: IndexedRows) -> "ScopeRows":
        """These and the new ones, which share their names and have higher ids, as the new ones' stamp found them."""
        if not len(new):
            return ScopeRows(stamp, self.rows, self.keys, self.firsts)
        old = self.rows
        rows = IndexedRows(
            np.concatenate([old.row_ids, new.row_ids]),
            np.concatenate([old.said_at, new.said_at]),
            np.concatenate([old.numbers, new.numbers]),
            old.names,
        )
        added = ScopeRows.of(stamp, new)
        at = np.searchsorted(self.keys, added.keys)
        firsts = np.insert(self.firsts, at, added.firsts + len(old))
        return ScopeRows(stamp, rows, np.insert(self.keys, at, added.keys), firsts)

    def around(self, row_ids: RowIdArray, reach: int) -> IndexedRows:
        """The rows with these ids, and the first chunks of the messages of the same thread at most ``reach`` seqs before
        or after them; each once, ordered by thread, seq and chunk."""
        rows = self.rows
        if not len(rows):
            return rows
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
    """Of one file, for all its readers. Made for transactions that only read: what others have not committed is never
    kept."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        # None: too large to be kept. A stamp: asked for once, not read yet.
        self._held: OrderedDict[Scope, ScopeRows | RowStamp | None] = OrderedDict()
        self._lock = threading.Lock()

    async def find(self, tx: Tx, scope: Scope) -> ScopeRows | None:
        """The rows of the scope as the transaction sees them; None where they are not kept, or asked for the first time
        since some went: reading all of them must be worth it."""
        with self._lock:
            known = scope in self._held
            held = self._held.get(scope)
        if known and held is None:
            return None
        stamp = await read_stamp(tx)
        if stamp is None:
            return None
        if isinstance(held, ScopeRows):
            if held.stamp == stamp:
                return held
            if held.stamp.follows(stamp):
                # Another reader saw more than this one does.
                return None
            if stamp.follows(held.stamp) and stamp.last - held.stamp.last <= _MOST_NEW:
                return await self._read_new(tx, scope, held, stamp)
        elif held is not None and (held.removed, held.schema) == (stamp.removed, stamp.schema):
            return await self._read_all(tx, scope, stamp)
        self._keep(scope, stamp)
        return None

    async def _read_all(self, tx: Tx, scope: Scope, stamp: RowStamp) -> ScopeRows | None:
        most = self._most // 2 // _BYTES_OF_ROW
        rows = await tx.all(_ALL, **of_scope(scope), most=most + 1)
        made = None if len(rows) > most else ScopeRows.of(stamp, IndexedRows.of(rows))
        self._keep(scope, made)
        return made

    async def _read_new(self, tx: Tx, scope: Scope, held: ScopeRows, stamp: RowStamp) -> ScopeRows:
        rows = await tx.all(_NEW, **of_scope(scope), last=held.stamp.last)
        with self._lock:
            # The names are shared by all that was made of these.
            made = held.join(stamp, IndexedRows.of(rows, held.rows.names))
        self._keep(scope, made if _count_bytes(made) <= self._most // 2 else None)
        return made

    def _keep(self, scope: Scope, read: ScopeRows | RowStamp | None) -> None:
        with self._lock:
            self._held[scope] = read
            self._held.move_to_end(scope)
            total = sum(map(_count_bytes, self._held.values()))
            while total > self._most or len(self._held) > _MOST_SCOPES:
                _, gone = self._held.popitem(last=False)
                total -= _count_bytes(gone)


def _count_bytes(held: ScopeRows | RowStamp | None) -> int:
    if not isinstance(held, ScopeRows):
        return 0
    return len(held.rows) * _BYTES_OF_ROW + len(held.rows.names.texts) * _BYTES_OF_NAME
