"""Both indexes on SQLite.

The lexical one is FTS5, whose row ids are those of ``search_rows``; the rows of words that were requested lately are in
memory (``posting_cache``), and so is what stands around rows (``row_cache``). The nearest codes are found in memory
(``code_cache``), as vectors that were read lately are (``vector_cache``), or by a scan of the scope's part of a covering index, with sqlite-vec's Hamming distance; where no
extension can be loaded, the driver puts functions of its own under the same names.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import TextClause, text

from layerlore.storage.core.index_rows import IndexedRows, RowIdArray, unpacked
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import ReadVectors, Tx
from layerlore.storage.drivers.session_numbers import BEFORE, COLUMNS, VALUES
from layerlore.storage.drivers.sqlite.row_cache import PostingCache, RowCache, read_stamp
from layerlore.storage.drivers.sqlite.vector_cache import CodeCache, VectorCache, pick_nearest, read_code_stamp

_ADD_ROW = text(f"INSERT INTO search_rows ({COLUMNS}) SELECT {VALUES} FROM (SELECT 1) {BEFORE} RETURNING row_id")  # noqa: S608 - constants
_ADD_WORDS = text("INSERT INTO search_text (rowid, text, scope) VALUES (:row_id, :words, :scope_tokens)")
# One value instead of thousands of rows: a third of the time. Newest first costs half as much again, since the index
# has the opposite order.
_ROWS_WITH = (
    "SELECT count(*), group_concat(rowid) FROM (SELECT rowid FROM search_text"
    " WHERE search_text MATCH :query AND rowid > :after ORDER BY rowid {order} LIMIT :most)"
)
_OLDEST = text(_ROWS_WITH.format(order="ASC"))
_NEWEST = text(_ROWS_WITH.format(order="DESC"))


_NEAREST_CODES = """
    SELECT row_id FROM search_vectors
    WHERE scope_token IN (:scope_token, :other_token) AND model = :model {among}
    ORDER BY vec_distance_hamming(vec_bit(code), vec_bit(:code)), row_id
    LIMIT :most
"""
NEAREST = text(_NEAREST_CODES.format(among=""))
NEAREST_AMONG = text(_NEAREST_CODES.format(among="AND row_id IN (SELECT value FROM json_each(:row_ids))"))


PUT = text(
    "INSERT INTO search_vectors (row_id, model, scope_token, dimension, code, vector)"
    " VALUES (:row_id, :model, :scope_token, :dimension, :code, :vector) ON CONFLICT DO NOTHING"
)


async def nearest(
    tx: Tx,
    tenant_id: str,
    scope_token: str,
    other_token: str,
    model: str,
    code: bytes,
    most: int,
    statement: TextClause = NEAREST,
) -> RowIdArray:
    """``statement`` is for a library that compares codes in another way."""
    # A transaction that only reads has the codes at hand.
    cache: CodeCache | None = getattr(tx, "codes", None)
    if cache is not None:
        tokens = dict.fromkeys((scope_token, other_token))
        held = [await cache.find(tx, token, model, len(code)) for token in tokens]
        if (kept := [each for each in held if each is not None]) and len(kept) == len(held):
            return pick_nearest(kept, code, most)
    row_ids = await tx.scalars(
        statement, scope_token=scope_token, other_token=other_token, model=model, code=code, most=most
    )
    return np.array(row_ids, np.int64)


async def of_rows(
    tx: Tx, tokens: Sequence[str], model: str, row_ids: RowIdArray, read: ReadVectors
) -> tuple[RowIdArray, NDArray[np.float32]]:
    cache: VectorCache | None = getattr(tx, "vectors", None)
    if cache is None:
        stamp = None
    else:
        stamp = await read_code_stamp(tx)
    if cache is None or stamp is None:
        return await read(row_ids)
    return await cache.find(stamp, tokens, model, row_ids, read)


async def add(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    words: list[dict[str, Any]] = []
    for row in rows:
        row_id = await tx.scalar(_ADD_ROW, **row)
        words.append({"row_id": row_id, "words": row["words"], "scope_tokens": row["scope_tokens"]})
    await tx.many(_ADD_WORDS, words)


async def postings(tx: Tx, scope_token: str, without: str, words: Sequence[str], most: int) -> dict[str, RowIdArray]:
    async def read(query: str, after: int) -> RowIdArray:
        # One more than wanted shows whether the cheap order has brought all of them.
        count, row_ids = await _read_rows(tx, _OLDEST, query, after, most + 1)
        if count > most:
            _, row_ids = await _read_rows(tx, _NEWEST, query, after, most)
        return unpacked(row_ids)

    cache: PostingCache | None = getattr(tx, "postings", None)
    if cache is None:
        stamp = None
    else:
        stamp = await read_stamp(tx)
    found: dict[str, RowIdArray] = {}
    for word in words:
        query = f"scope : {_quoted(scope_token)} AND text : {_quoted(word)}"
        if without:
            query = f"({query}) NOT scope : {_quoted(without)}"
        found[word] = (
            await read(query, 0) if cache is None or stamp is None else await cache.find(stamp, query, most, read)
        )
    return found


async def around(tx: Tx, scope: Scope, row_ids: RowIdArray, reach: int) -> IndexedRows | None:
    cache: RowCache | None = getattr(tx, "rows", None)
    if cache is None:
        held = None
    else:
        held = await cache.find(tx, scope)
    if held is None:
        return None
    return held.around(row_ids, reach)


async def _read_rows(tx: Tx, statement: TextClause, query: str, after: int, most: int) -> tuple[int, str | None]:
    row = await tx.one(statement, query=query, after=after, most=most)
    assert row is not None
    return row[0], row[1]


def _quoted(word: str) -> str:
    """A string literal of FTS5's query language: nothing in it is an operator."""
    return '"' + word.replace('"', '""') + '"'


def as_code(code: bytes) -> bytes:
    return code
