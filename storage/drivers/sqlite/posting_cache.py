"""The rows that have a word, in memory, for words that were asked for lately: a name that half of all messages have
costs milliseconds to read.

They are what the file holds, whoever writes it. The words of a row never change, its id is never given again, and ids
only rise. The triggers of the file count each row that goes, whichever process removes it: while that count stands, what
came is what lies behind the last id.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
from sqlalchemy import text

from layerlore.storage.core.row_ids import RowIdArray
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.sqlite.snapshot import read_once

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
    """What a snapshot of the index can be known by: how many rows were removed so far, the schema's version, since a
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
    kept. Of the words it keeps hashes."""

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
    return None if row is None or row[0] is None else RowStamp(*row)
