"""Nearest codes on Postgres: bit strings and ``bit_count``, which need no extension."""

from asyncpg import BitString
from sqlalchemy import text

from memstrata.storage.transaction import Tx

_INSERT = text(
    "INSERT INTO search_vectors (row_id, model, scope_token, dimension, code, vector)"
    " VALUES (:row_id, :model, :scope_token, :dimension, :code, :vector) ON CONFLICT DO NOTHING"
)
_NEAREST = """
    SELECT row_id FROM search_vectors
    WHERE scope_token = :scope_token AND model = :model {among}
    ORDER BY bit_count(code # CAST(:code AS bit varying)), row_id
    LIMIT CAST(:most AS bigint)
"""
NEAREST = text(_NEAREST.format(among=""))
NEAREST_AMONG = text(_NEAREST.format(among="AND row_id = ANY(CAST(:row_ids AS bigint[]))"))


async def insert(
    tx: Tx, *, row_id: int, model: str, scope_token: str, dimension: int, code: bytes, vector: bytes
) -> int:
    return await tx.run(
        _INSERT,
        row_id=row_id,
        model=model,
        scope_token=scope_token,
        dimension=dimension,
        code=_bits(code),
        vector=vector,
    )


async def nearest(tx: Tx, *, scope_token: str, model: str, code: bytes, most: int) -> list[int]:
    rows = await tx.all(NEAREST, scope_token=scope_token, model=model, code=_bits(code), most=most)
    return [row[0] for row in rows]


async def nearest_among(
    tx: Tx, *, scope_token: str, model: str, code: bytes, most: int, row_ids: list[int]
) -> list[int]:
    rows = await tx.all(
        NEAREST_AMONG, scope_token=scope_token, model=model, code=_bits(code), most=most, row_ids=row_ids
    )
    return [row[0] for row in rows]


def _bits(code: bytes) -> BitString:
    return BitString.frombytes(code, 8 * len(code))
