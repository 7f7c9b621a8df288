"""The lexical index on Postgres: a tsvector of stems made from our words, and a GIN index."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from memstrata.storage.row_ids import RowIdArray, unpacked
from memstrata.storage.search_sessions import BEFORE, COLUMNS, VALUES
from memstrata.storage.transaction import Tx

# The stem of a word that the dictionary does not change is the word.
_ADD = text(
    f"""
    INSERT INTO search_rows ({COLUMNS}, lexemes)
    SELECT {VALUES}, made.lexemes
    FROM (
        SELECT array_to_tsvector(array_agg(DISTINCT coalesce((ts_lexize('memstrata_stem', word))[1], word))
                                 || regexp_split_to_array(CAST(:scope_lexemes AS text), ' ')) AS lexemes
        FROM unnest(string_to_array(CAST(:words AS text), ' ')) AS word
    ) AS made
    {BEFORE}
    """  # noqa: S608 - constants
)

# Words are letters, marks and digits only, so quoting them makes a lexeme; "+ 0" keeps the planner from walking the
# row ids' index backwards in search of a rare word.
_POSTINGS = text(
    """
    SELECT asked.word, found.row_ids
    FROM unnest(CAST(:words AS text[])) AS asked(word)
    CROSS JOIN LATERAL (
        SELECT string_agg(int8send(hits.row_id), '') AS row_ids
        FROM (
            SELECT row_id
            FROM search_rows
            WHERE lexemes @@ CAST(
                CAST(:scope AS text) || ' & '''
                || coalesce((ts_lexize('memstrata_stem', asked.word))[1], asked.word) || '''' AS tsquery)
            ORDER BY row_id + 0 DESC
            LIMIT CAST(:most AS bigint)
        ) AS hits
    ) AS found
    """
)


async def add(tx: Tx, rows: Sequence[dict[str, Any]]) -> None:
    # A colon before it, which no word has.
    await tx.many(_ADD, [{**row, "scope_lexemes": ":" + row["scope_tokens"].replace(" ", " :")} for row in rows])


async def postings(tx: Tx, scope_token: str, without: str, words: Sequence[str], most: int) -> dict[str, RowIdArray]:
    scope = f"':{scope_token}'" + (f" & !':{without}'" if without else "")
    rows = await tx.all(_POSTINGS, words=list(words), scope=scope, most=most)
    return {word: unpacked(row_ids) for word, row_ids in rows}
