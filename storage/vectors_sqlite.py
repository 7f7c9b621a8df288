"""Nearest codes on SQLite: a scan of the scope's part of a covering index, with sqlite-vec's Hamming distance.

Where no extension can be loaded, ``sqlite_driver`` puts functions of its own under the same names.
"""

from sqlalchemy import text

_NEAREST = """
    SELECT row_id FROM search_vectors
    WHERE scope_token IN (:scope_token, :other_token) AND model = :model {among}
    ORDER BY vec_distance_hamming(vec_bit(code), vec_bit(:code)), row_id
    LIMIT :most
"""
NEAREST = text(_NEAREST.format(among=""))
NEAREST_AMONG = text(_NEAREST.format(among="AND row_id IN (SELECT value FROM json_each(:row_ids))"))


def as_code(code: bytes) -> bytes:
    return code
