"""Nearest codes on Postgres: bit strings and ``bit_count``, which need no extension."""

from asyncpg import BitString
from sqlalchemy import text

_NEAREST = """
    SELECT row_id FROM search_vectors
    WHERE scope_token IN (:scope_token, :other_token) AND model = :model {among}
    ORDER BY bit_count(code # CAST(:code AS bit varying)), row_id
    LIMIT CAST(:most AS bigint)
"""
NEAREST = text(_NEAREST.format(among=""))
NEAREST_AMONG = text(_NEAREST.format(among="AND row_id = ANY(CAST(:row_ids AS bigint[]))"))


def as_code(code: bytes) -> BitString:
    return BitString.frombytes(code, 8 * len(code))
