"""The lexical index on Postgres: a tsvector of stems made from our words, and a GIN index."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from layerlore.storage.row_ids import RowIdArray, unpacked
from layerlore.storage.search_sessions import BEFORE, COLUMNS, VALUES
from layerlore.storage.transaction import Tx

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


async def add(tx: Tx, rows: Sequence[dict[str, Any]]) -> None:
    # A colon before it, which no word has.
    await tx.many(_ADD, [{**row, "scope_lexemes": ":" + row["scope_tokens"].replace(" ", " :")} for row in rows])


async def postings(tx: Tx, scope_token: str, without: str, words: Sequence[str], most: int) -> dict[str, RowIdArray]:
    scope = f"':{scope_token}'" + (f" & !':{without}'" if without else "")
    rows = await tx.all(_POSTINGS, words=list(words), scope=scope, most=most)
    return {word: unpacked(row_ids) for word, row_ids in rows}
