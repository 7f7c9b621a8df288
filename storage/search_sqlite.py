"""The lexical index on SQLite: FTS5, whose row ids are those of ``search_rows``."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from layerlore.storage.row_ids import RowIdArray, unpacked
from layerlore.storage.search_sessions import BEFORE, COLUMNS, VALUES
from layerlore.storage.transaction import Tx

_ADD_ROW = text(f"INSERT INTO search_rows ({COLUMNS}) SELECT {VALUES} FROM (SELECT 1) {BEFORE} RETURNING row_id")  # noqa: S608 - constants
_ADD_WORDS = text("INSERT INTO search_text (rowid, text, scope) VALUES (:row_id, :words, :scope_tokens)")
# One value instead of thousands of rows: a third of the time.
_POSTINGS = text(
    "SELECT group_concat(rowid)"
    " FROM (SELECT rowid FROM search_text WHERE search_text MATCH :query ORDER BY rowid DESC LIMIT :most)"
)


async def add(tx: Tx, rows: Sequence[dict[str, Any]]) -> None:
    words: list[dict[str, Any]] = []
    for row in rows:
        added = await tx.one(_ADD_ROW, **row)
        assert added is not None
        words.append({"row_id": added[0], "words": row["words"], "scope_tokens": row["scope_tokens"]})
    await tx.many(_ADD_WORDS, words)


async def postings(tx: Tx, scope_token: str, without: str, words: Sequence[str], most: int) -> dict[str, RowIdArray]:
    found: dict[str, RowIdArray] = {}
    for word in words:
        query = f"scope : {_quoted(scope_token)} AND text : {_quoted(word)}"
        if without:
            query = f"({query}) NOT scope : {_quoted(without)}"
        row = await tx.one(_POSTINGS, query=query, most=most)
        found[word] = unpacked(row[0] if row else None)
    return found


def _quoted(word: str) -> str:
    """A string literal of FTS5's query language: nothing in it is an operator."""
    return '"' + word.replace('"', '""') + '"'
