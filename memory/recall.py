"""Recall: a query over everything said in a scope, as ranked hits with what stood around them.

One read transaction: the rows that have each word, pure ranking, the winners' messages, their neighbours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from memstrata.memory import ranking
from memstrata.memory.engine import Engine
from memstrata.memory.ranking import Scores
from memstrata.memory.search_text import query_words
from memstrata.storage import hits, messages, search
from memstrata.storage.errors import InvalidInput, LimitExceeded
from memstrata.storage.hits import Found
from memstrata.storage.records import ROLES, Message, Role, Scope
from memstrata.storage.transaction import Tx

Kind = Literal["entry", "message"]

MOST_QUERIES = 5
# Seed 000: the context of a hit.
MESSAGES_BEFORE = 2
MESSAGES_AFTER = 1
# A word that more rows have than this says little: the newest of them serve.
MOST_ROWS_PER_WORD = 20_000
# How many ranked rows are looked up first; with filters, more and more until the limit is met.
_FIRST_LOOK = 10


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What to look for, and where. Times are milliseconds since 1970 and compare with when a message was said."""

    queries: Sequence[str]
    limit: int = 5
    thread_id: str | None = None
    since: int | None = None
    until: int | None = None
    roles: Sequence[Role] = ROLES
    kinds: Sequence[Kind] = ("entry", "message")
    neighbours: bool = True
    explain: bool = False

    @property
    def filtered(self) -> bool:
        """Whether some of what matches is left out."""
        return bool(self.thread_id or self.since is not None or self.until is not None or len(self.roles) < len(ROLES))


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked result, its score relative to the best (1), the words that were looked for, those of them that it
    has (if asked), and its neighbours."""

    message: Message
    score: float
    sought: tuple[str, ...]
    words: tuple[str, ...]
    before: list[Message] = field(default_factory=list)
    after: list[Message] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Recalled:
    """The hits, best first; how many messages share a word with the query (None where filters keep it from being
    known); the words that were looked for; and the signals that ranked them."""

    hits: list[Hit]
    matched: int | None
    words: list[str]
    signals: tuple[str, ...] = ("lexical",)


async def recall(engine: Engine, scope: Scope, asked: RecallRequest) -> Recalled:
    """Raises InvalidInput without a query, LimitExceeded for too many or too long ones."""
    if asked.since is not None and asked.until is not None and asked.since > asked.until:
        raise InvalidInput("since: it is later than until, so nothing could be found")
    queries = [query for query in asked.queries if query.strip()]
    if not queries:
        raise InvalidInput("query: give a question or some words to look for")
    if len(queries) > MOST_QUERIES:
        raise LimitExceeded(f"queries: {len(queries)} given; at most {MOST_QUERIES} in one call are allowed")
    for query in queries:
        size = len(query.encode())
        if size > engine.limits.query_bytes:
            raise LimitExceeded(f"query: {size} bytes; at most {engine.limits.query_bytes} are allowed")
    each = [query_words([query]) for query in queries]
    if "message" not in asked.kinds:
        return Recalled([], 0, list(dict.fromkeys(word for words in each for word in words)))
    return await engine.database.read(_recall, scope, asked, each)


async def _recall(tx: Tx, scope: Scope, asked: RecallRequest, each: Sequence[Sequence[str]]) -> Recalled:
    words = list(dict.fromkeys(word for query in each for word in query))
    postings = await search.postings(tx, scope, words, most=MOST_ROWS_PER_WORD)
    rows = await search.size(tx, scope)
    scores = ranking.merged([ranking.lexical({word: postings[word] for word in query}, rows) for query in each])
    found = [
        await _hit(tx, scope, asked, row, score, postings) for row, score in await _winners(tx, scope, asked, scores)
    ]
    return Recalled(found, None if asked.filtered else len(scores), words)


async def _winners(tx: Tx, scope: Scope, asked: RecallRequest, scores: Scores) -> list[tuple[Found, float]]:
    """The best rows that pass the filters: looked up until there are enough, or no more."""
    winners: list[tuple[Found, float]] = []
    done, look = 0, max(_FIRST_LOOK, asked.limit)
    while done < len(scores) and len(winners) < asked.limit:
        batch = ranking.best(scores, look)[done:]
        found = await hits.matching(
            tx,
            scope,
            [row_id for row_id, _ in batch],
            thread_id=asked.thread_id,
            since=asked.since,
            until=asked.until,
            roles=asked.roles,
        )
        winners += [(found[row_id], score) for row_id, score in batch if row_id in found]
        done, look = done + len(batch), look * 8
    return winners[: asked.limit]


async def _hit(
    tx: Tx, scope: Scope, asked: RecallRequest, row: Found, score: float, postings: Mapping[str, Sequence[int]]
) -> Hit:
    sought = tuple(postings)
    words = tuple(word for word in sought if row.row_id in postings[word]) if asked.explain else ()
    if not asked.neighbours:
        return Hit(row.message, score, sought, words)
    before, after = await messages.neighbours(
        tx,
        scope,
        row.thread_uid,
        row.message.thread_id,
        row.message.seq,
        before=MESSAGES_BEFORE,
        after=MESSAGES_AFTER,
    )
    return Hit(row.message, score, sought, words, before, after)
