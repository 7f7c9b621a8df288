"""The rows of the index in memory, a scope at a time, and what stands around each: looking there takes a tenth of what
reading a thousand rows takes.

They are what the file holds, whoever writes it: known by the stamp of ``posting_cache``. The triggers of the file count
a row that changes as one that goes.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text

from layerlore.storage.core.index_rows import CHUNK, SEQ, THREAD, IndexedRow, IndexedRows
from layerlore.storage.core.records import Scope
from layerlore.storage.core.row_ids import RowIdArray, sort_distinct
from layerlore.storage.core.scopes import of_scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.sqlite.posting_cache import RowStamp, read_stamp

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
