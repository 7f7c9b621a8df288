"""Both indexes on Postgres.

The lexical one is a tsvector of stems made from our words, and a GIN index. The nearest codes are found by bit strings
and ``bit_count``, which need no extension.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from asyncpg import BitString
from numpy.typing import NDArray
from sqlalchemy import text

from layerlore.storage.core.index_rows import IndexedRows, RowIdArray, unpacked
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import ReadVectors, Tx
from layerlore.storage.drivers.session_numbers import BEFORE, COLUMNS, VALUES

# The stem of a word that the dictionary does not change is the word.
_ADD = text(
    f"""
    INSERT INTO search_rows ({COLUMNS}, lexemes)
    SELECT {VALUES}, made.lexemes
    FROM (
        SELECT array_to_tsvector(array_agg(DISTINCT coalesce((ts_lexize('layerlore_stem', word))[1], word))
                                 || regexp_split_to_array(CAST(:scope_lexemes AS text), ' ')) AS lexemes
        FROM unnest(string_to_array(CAST(:words AS text), ' ')) AS word
    ) AS made
    {BEFORE}
    """  # noqa: S608 - constants
)

# A function of the tables' owner (``migrations/``): under a policy no index would serve the words. Words are letters,
# marks and digits only, so quoting them makes a lexeme.
_POSTINGS = text("SELECT word, row_ids FROM layerlore_postings(:words, :scope, :most)")


_NEAREST_CODES = """
    SELECT row_id FROM search_vectors
    WHERE tenant_id = :tenant_id AND scope_token IN (:scope_token, :other_token) AND model = :model {among}
    ORDER BY bit_count(code # CAST(:code AS bit varying)), row_id
    LIMIT CAST(:most AS bigint)
"""
NEAREST = text(_NEAREST_CODES.format(among=""))
NEAREST_AMONG = text(_NEAREST_CODES.format(among="AND row_id = ANY(CAST(:row_ids AS bigint[]))"))


PUT = text(
    "INSERT INTO search_vectors (tenant_id, row_id, model, scope_token, dimension, code, vector)"
    " VALUES (:tenant_id, :row_id, :model, :scope_token, :dimension, :code, :vector) ON CONFLICT DO NOTHING"
)


async def nearest(
    tx: Tx, tenant_id: str, scope_token: str, other_token: str, model: str, code: bytes, most: int
) -> RowIdArray:
    tokens = {"scope_token": scope_token, "other_token": other_token}
    row_ids = await tx.scalars(NEAREST, tenant_id=tenant_id, **tokens, model=model, code=as_code(code), most=most)
    return np.array(row_ids, np.int64)


async def around(tx: Tx, scope: Scope, row_ids: RowIdArray, reach: int) -> IndexedRows | None:
    """Nothing is at hand: other processes' changes would have to be asked for, which costs as much."""
    return None


async def of_rows(
    tx: Tx, tokens: Sequence[str], model: str, row_ids: RowIdArray, read: ReadVectors
) -> tuple[RowIdArray, NDArray[np.float32]]:
    return await read(row_ids)


async def add(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    # A colon before it, which no word has.
    await tx.many(_ADD, [{**row, "scope_lexemes": ":" + row["scope_tokens"].replace(" ", " :")} for row in rows])


async def postings(tx: Tx, scope_token: str, without: str, words: Sequence[str], most: int) -> dict[str, RowIdArray]:
    scope = f"':{scope_token}'" + (f" & !':{without}'" if without else "")
    rows = await tx.all(_POSTINGS, words=list(words), scope=scope, most=most)
    return {word: unpacked(row_ids) for word, row_ids in rows}


def as_code(code: bytes) -> BitString:
    return BitString.frombytes(code, 8 * len(code))
