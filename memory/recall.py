"""Recall: a query over everything said in a scope, as ranked hits with what stood around them.

While the queries are embedded, what their words match is read; then one transaction gathers candidates, ranks them,
and reads the winners and their neighbours. ``recall`` is the one way in, for tools, resources and the command line.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from layerlore.memory.candidates import Filters, Gathered, Matches, Query, Space, Vector, gather, match
from layerlore.memory.engine import Engine
from layerlore.memory.recall_rules import RecallRules
from layerlore.memory.search_text import query_words
from layerlore.memory.verdicts import Verdict, Winner, judged, winning
from layerlore.storage import windows
from layerlore.storage.entries import PLACE
from layerlore.storage.errors import InvalidInput, LimitExceeded
from layerlore.storage.records import ROLES, Message, Role, Scope
from layerlore.storage.search import KINDS, Kind
from layerlore.storage.search_rows import messages_of
from layerlore.storage.transaction import Tx

Signal = Literal["lexical", "semantic"]

MOST_QUERIES = 5
# Seed 000: the neighbours of a hit.
MESSAGES_BEFORE = 2
MESSAGES_AFTER = 1

NOT_ALL_EMBEDDED = "some messages have no vector yet"
_RANKED_PARTS = ("lexical", "context", "semantic", "speaker", "role", "session", "recency")


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What to look for, and where. Times are milliseconds since 1970 and compare with when a message was said. The
    roles are of messages; in a thread those entries are looked for that have a source there."""

    queries: Sequence[str]
    limit: int = 5
    thread_id: str | None = None
    since: int | None = None
    until: int | None = None
    roles: Sequence[Role] = ROLES
    kinds: Sequence[Kind] = KINDS
    neighbours: bool = True

    @property
    def filters(self) -> Filters | None:
        """None where all that matches may be found."""
        if self.thread_id is None and self.since is None and self.until is None and len(self.roles) == len(ROLES):
            return None
        of_entries = ["entry"] if "entry" in self.kinds else []
        return Filters(self.thread_id, self.since, self.until, [*self.roles, *of_entries])


@dataclass(frozen=True, slots=True)
class Parts:
    """What made a hit's score: of the query with this number, its relevance times the ranking score's share of the
    best. The ranking score is ``recency`` times the sum of the parts from ``lexical`` to ``session``; ``cosine`` is
    None where the message has no vector yet, or none serve."""

    query: int
    relevance: float
    ranking: float
    lexical: float
    context: float
    semantic: float
    cosine: float | None
    speaker: float
    role: float
    session: float
    recency: float
    words: tuple[str, ...]
    context_words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked result, its score from 0 to 1, what made it, and its neighbours. An entry has the shape of a message
    here (``entries.as_message``) and no neighbours."""

    message: Message
    score: float
    parts: Parts
    before: list[Message] = field(default_factory=list)
    after: list[Message] = field(default_factory=list)

    @property
    def is_entry(self) -> bool:
        return self.message.thread_id.startswith(PLACE)


@dataclass(frozen=True, slots=True)
class Recalled:
    """The hits, best first; the words that were looked for; the signals that served, and which did not, and why; and
    how many of the hits that were asked for the floor held back, since they say too little about the query."""

    hits: list[Hit]
    words: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ("lexical",)
    degraded: tuple[str, ...] = ()
    held_back: int = 0


async def recall(engine: Engine, scope: Scope, asked: RecallRequest) -> Recalled:
    """Raises InvalidInput without a query, LimitExceeded for too many or too long ones."""
    texts = _checked(engine, asked)
    each = [tuple(query_words(text)) for text in texts]
    sought = tuple(dict.fromkeys(word for words in each for word in words))
    rules = engine.recall.for_limit(asked.limit)
    matches, (vectors, reasons) = await asyncio.gather(
        engine.database.read(match, scope, sought, asked.filters, rules, asked.kinds), _embedded(engine, texts, each)
    )
    queries = [Query(words, vector) for words, vector in zip(each, vectors, strict=True)]
    space, now = space_of(engine, vectors), engine.now()
    recalled = await engine.database.read(_recall, scope, asked, queries, matches, space, rules, now)
    return replace(recalled, words=sought, degraded=(*reasons, *recalled.degraded))


def _checked(engine: Engine, asked: RecallRequest) -> list[str]:
    if asked.since is not None and asked.until is not None and asked.since > asked.until:
        raise InvalidInput("since: it is later than until, so nothing could be found")
    # Models like to give their question again among its wordings.
    queries = list(dict.fromkeys(query for query in asked.queries if query.strip()))
    if not queries:
        raise InvalidInput("query: give a question or some words to look for")
    if len(queries) > MOST_QUERIES:
        raise LimitExceeded(f"queries: {len(queries)} given; at most {MOST_QUERIES} in one call are allowed")
    for query in queries:
        size = len(query.encode())
        if size > engine.limits.query_bytes:
            raise LimitExceeded(f"query: {size} bytes; at most {engine.limits.query_bytes} are allowed")
    return queries


async def _embedded(
    engine: Engine, texts: Sequence[str], each: Sequence[Sequence[str]]
) -> tuple[list[Vector | None], tuple[str, ...]]:
    """The vectors of the queries that have a word, and why some are missing, each reason once."""
    embedding = engine.embedding
    if embedding is None:
        return [None] * len(texts), ()

    async def embedded(text: str, words: Sequence[str]) -> tuple[Vector | None, str]:
        if not words:
            return None, ""
        made, reason = await embedding.query(text)
        return (None if made is None else made.vector), reason

    answers = await asyncio.gather(*(embedded(text, words) for text, words in zip(texts, each, strict=True)))
    return [vector for vector, _ in answers], tuple(dict.fromkeys(reason for _, reason in answers if reason))


def space_of(engine: Engine, vectors: Sequence[Vector | None]) -> Space | None:
    """The space that the vectors are compared in; None without any."""
    if engine.embedding is None or all(vector is None for vector in vectors):
        return None
    embedder = engine.embedding.embedder
    return Space(embedder.name, embedder.weight, embedder.squeezed, embedder.calibration)


async def _recall(
    tx: Tx,
    scope: Scope,
    asked: RecallRequest,
    queries: Sequence[Query],
    matches: Matches,
    space: Space | None,
    rules: RecallRules,
    now: int,
) -> Recalled:
    gathered = await gather(tx, scope, queries, matches, space, rules, asked.kinds)
    verdicts = [judged(gathered, number, space, rules, now=now) for number in range(len(queries))]
    winners, wanted = winning(gathered, verdicts, asked.limit, rules.tail)
    hits = await _hits(tx, scope, asked, gathered, verdicts, winners)
    return Recalled(
        hits,
        signals=("lexical", "semantic") if any(verdict.embedded for verdict in verdicts) else ("lexical",),
        degraded=(NOT_ALL_EMBEDDED,) if gathered.unembedded else (),
        held_back=wanted - len(winners),
    )


async def _hits(
    tx: Tx,
    scope: Scope,
    asked: RecallRequest,
    gathered: Gathered,
    verdicts: Sequence[Verdict],
    winners: Sequence[Winner],
) -> list[Hit]:
    """The winners' messages; with neighbours if asked, all read at once."""
    places = [(gathered.rows[winner.row].thread_uid, gathered.rows[winner.row].seq) for winner in winners]
    reach = range(-MESSAGES_BEFORE, MESSAGES_AFTER + 1) if asked.neighbours else range(1)
    wanted = [(uid, seq + step) for uid, seq in places for step in (range(1) if uid.startswith(PLACE) else reach)]
    read = await messages_of(tx, scope, wanted)
    hits = []
    for winner, place in zip(winners, places, strict=True):
        if place in read:
            has_neighbours = asked.neighbours and not place[0].startswith(PLACE)
            around = await _around(tx, scope, place, read) if has_neighbours else ([], [])
            hits.append(Hit(read[place], winner.score, _parts(gathered, verdicts, winner), *around))
    return hits


async def _around(
    tx: Tx, scope: Scope, place: tuple[str, int], read: Mapping[tuple[str, int], Message]
) -> tuple[list[Message], list[Message]]:
    """The messages before and after one, in order. Deleted ones leave holes in the seqs: then those beyond serve."""
    uid, seq = place
    first = max(1, seq - MESSAGES_BEFORE)
    before = [read[uid, at] for at in range(first, seq) if (uid, at) in read]
    after = [read[uid, at] for at in range(seq + 1, seq + MESSAGES_AFTER + 1) if (uid, at) in read]
    if len(before) == seq - first and len(after) == MESSAGES_AFTER:
        return before, after
    thread_id = read[place].thread_id
    return await windows.neighbours(tx, scope, uid, thread_id, seq, before=MESSAGES_BEFORE, after=MESSAGES_AFTER)


def _parts(gathered: Gathered, verdicts: Sequence[Verdict], winner: Winner) -> Parts:
    verdict, question, row = verdicts[winner.query], gathered.questions[winner.query], winner.row
    ranked = verdict.ranked
    cosine = float("nan") if question.cosines is None else float(question.cosines[row])
    return Parts(
        query=winner.query,
        relevance=verdict.relevance,
        ranking=winner.ranking,
        **{name: float(getattr(ranked, name)[row]) for name in _RANKED_PARTS},
        cosine=None if math.isnan(cosine) else cosine,
        words=tuple(word for word, has in zip(question.words, question.has[:, row], strict=True) if has),
        context_words=tuple(word for word, has in zip(question.words, ranked.context_has[:, row], strict=True) if has),
    )
