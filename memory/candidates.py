"""What a recall looks at: the rows that have the rarest words of a query, those whose vectors are nearest to it, and
the rows around both, with all that ranking them takes.

What the words match is read while the query is still being embedded, in a transaction of its own: a row that is gone by
the second one is left out there, and one that is new is found by its vector at most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from layerlore.memory import ranking
from layerlore.memory.pool import Flags, Floats, Ints, Pool
from layerlore.memory.ranking import Question
from layerlore.memory.recall_rules import RecallRules
from layerlore.memory.relevance import Calibration, Evidence, standing, unknown_shares
from layerlore.storage import counts, entries, search, search_rows, vectors
from layerlore.storage.records import Scope
from layerlore.storage.search import KINDS, Kind
from layerlore.storage.search_rows import IndexedRow
from layerlore.storage.transaction import Tx

Vector = NDArray[np.float32]
Place = tuple[str, int]
"""A message's thread uid and seq."""

# A chunk of 800 characters has about so many: a long message is so many more rows.
_TOKENS_OF_CHUNK = 200
# Where a few long messages fill a list of candidates, so many times its length is looked through for others.
_LOOKED_THROUGH = 16


@dataclass(frozen=True, slots=True)
class Query:
    """The words of a query, and its vector (of unit length) where there is one."""

    words: tuple[str, ...]
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Space:
    """The space of the vectors: the model that they are stored under, and what its cosines are worth (see
    ``Embedder``)."""

    model: str
    weight: float
    squeezed: bool
    calibration: Calibration | None


@dataclass(frozen=True, slots=True)
class Filters:
    """What narrows a recall; of it only ``passing`` knows the columns. The role ``entry`` means entries."""

    thread_id: str | None
    since: int | None
    until: int | None
    roles: Sequence[str]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The rows of ``pool`` and, for each query, which of them are candidates, the question, and what is known of its
    relevance before it is ranked. ``unembedded``: some candidate still lacks a vector."""

    rows: Sequence[IndexedRow]
    pool: Pool
    candidates: tuple[Flags, ...]
    questions: tuple[Question, ...]
    evidence: tuple[Evidence, ...]
    unembedded: bool


@dataclass(frozen=True, slots=True)
class Matches:
    """For each word of all queries the rows that have it, ascending, and its idf; how many rows the scope has, about;
    and the rows that pass the filters, ascending, where there are any filters."""

    postings: Mapping[str, Ints]
    weights: Mapping[str, float]
    size: int
    passing: Ints | None


async def match(
    tx: Tx,
    scope: Scope,
    words: Sequence[str],
    filters: Filters | None,
    rules: RecallRules,
    kinds: Sequence[Kind] = KINDS,
) -> Matches:
    """What the words match."""
    found = await search.postings(tx, scope, words, most=rules.rows_per_word, kinds=kinds)
    postings = cast(Mapping[str, Ints], found)
    size = await _rows(tx, scope) if "message" in kinds else await entries.count(tx, scope)
    weights = {word: ranking.idf(len(postings[word]), size) for word in words}
    return Matches(postings, weights, size, await _passing(tx, scope, filters))


async def gather(
    tx: Tx,
    scope: Scope,
    queries: Sequence[Query],
    matches: Matches,
    space: Space | None,
    rules: RecallRules,
    kinds: Sequence[Kind] = KINDS,
) -> Gathered:
    """Everything that ranking needs. Without a ``space`` vectors are left alone."""
    postings, weights, passing = matches.postings, matches.weights, matches.passing
    compared = _Compared(tx, scope, space, kinds)
    most = rules.candidates
    lexical = [_lexical(query, postings, weights, passing, most * _LOOKED_THROUGH) for query in queries]
    scanned = [await compared.scan(query.vector, passing, rules.rescored) for query in queries]
    await compared.read(np.concatenate([*(by_words[:most] for by_words in lexical), *scanned]))
    near = [compared.cosines(query.vector, found) for query, found in zip(queries, scanned, strict=True)]
    semantic = [ranking.best(found, _known(cosines), len(found)) for found, cosines in zip(scanned, near, strict=True)]
    chosen, rows = await _chosen(tx, scope, [*lexical, *semantic], most)
    pool = Pool.of(rows)
    candidates = tuple(
        pool.reached(among(np.union1d(by_words, by_meaning), pool.row_ids)) & _passes(passing, pool)
        for by_words, by_meaning in zip(chosen[: len(queries)], chosen[len(queries) :], strict=True)
    )
    await compared.read(pool.row_ids[np.logical_or.reduce(candidates)])
    reachable = matches.size if passing is None else len(passing)
    return Gathered(
        rows,
        pool,
        candidates,
        tuple(_question(query, postings, weights, pool, compared, space) for query in queries),
        tuple(
            _evidence(query, postings, weights, cosines, reachable)
            for query, cosines in zip(queries, near, strict=True)
        ),
        compared.incomplete,
    )


async def _chosen(tx: Tx, scope: Scope, lists: Sequence[Ints], most: int) -> tuple[list[Ints], list[IndexedRow]]:
    """Of each list, best first, the ``most`` best rows; where these are chunks of half as many messages or fewer, the
    best row of further messages too. And the rows around them."""
    chosen = [rows[:most] for rows in lists]
    around = await search_rows.around(tx, scope, np.unique(np.concatenate(chosen)))
    held = {row.row_id: (row.thread_uid, row.seq) for row in around}
    if not any(len(rows) > most and 2 * len(_messages(rows[:most], held)) <= most for rows in lists):
        return chosen, around
    held = await search_rows.places(tx, scope, np.unique(np.concatenate(lists)))
    chosen = [np.array(_spread(rows, held, most), np.int64) for rows in lists]
    return chosen, await search_rows.around(tx, scope, np.unique(np.concatenate(chosen)))


def _messages(rows: Ints, held: Mapping[int, Place]) -> dict[Place, int]:
    """The best row of each message, best first."""
    best: dict[Place, int] = {}
    for row in rows.tolist():
        if row in held:
            best.setdefault(held[row], row)
    return best


def _spread(rows: Ints, held: Mapping[int, Place], most: int) -> list[int]:
    return list(dict.fromkeys([*rows[:most].tolist(), *list(_messages(rows, held).values())[:most]]))


def among(row_ids: Ints, asked: Ints) -> Flags:
    """Which of the asked rows are among ``row_ids``, which ascend."""
    if not len(row_ids):
        return np.zeros(len(asked), np.bool_)
    at = np.minimum(np.searchsorted(row_ids, asked), len(row_ids) - 1)
    return cast(Flags, row_ids[at] == asked)


async def _rows(tx: Tx, scope: Scope) -> int:
    """How many rows the scope has, about: the N of inverse document frequency. Counting them costs a scan."""
    _, messages, tokens = await counts.live(tx, scope)
    return messages + tokens // _TOKENS_OF_CHUNK


async def _passing(tx: Tx, scope: Scope, filters: Filters | None) -> Ints | None:
    if filters is None:
        return None
    return await search_rows.passing(
        tx, scope, thread_id=filters.thread_id, since=filters.since, until=filters.until, roles=filters.roles
    )


def _passes(passing: Ints | None, pool: Pool) -> Flags:
    return np.ones(len(pool), np.bool_) if passing is None else among(passing, pool.row_ids)


def _lexical(
    query: Query, postings: Mapping[str, Ints], weights: Mapping[str, float], passing: Ints | None, most: int
) -> Ints:
    row_ids, scores = ranking.summed({word: postings[word] for word in query.words}, weights)
    if passing is not None:
        kept = among(passing, row_ids)
        row_ids, scores = row_ids[kept], scores[kept]
    return ranking.best(row_ids, scores, most)


def _known(cosines: Floats) -> Floats:
    return np.where(np.isnan(cosines), -np.inf, cosines)


def _question(
    query: Query,
    postings: Mapping[str, Ints],
    weights: Mapping[str, float],
    pool: Pool,
    compared: "_Compared",
    space: Space | None,
) -> Question:
    has = np.zeros((len(query.words), len(pool)), np.bool_)
    for at, word in enumerate(query.words):
        has[at] = among(postings[word], pool.row_ids)
    of_words = np.array([weights[word] for word in query.words], np.float64)
    if space is None or query.vector is None:
        return Question(query.words, of_words, has)
    cosines = compared.cosines(query.vector, pool.row_ids)
    return Question(query.words, of_words, has, cosines, space.weight, space.squeezed)


def _evidence(
    query: Query, postings: Mapping[str, Ints], weights: Mapping[str, float], cosines: Floats, rows: int
) -> Evidence:
    known = cosines[~np.isnan(cosines)]
    unknown, unheard = unknown_shares(
        [len(postings[word]) for word in query.words], [weights[word] for word in query.words]
    )
    return Evidence(
        nearest=float(known.max(initial=0.0)),
        standing=standing(known),
        unknown=unknown,
        unheard=unheard,
        rows=rows,
    )


class _Compared:
    """The vectors that were read, each once."""

    def __init__(self, tx: Tx, scope: Scope, space: Space | None, kinds: Sequence[Kind]) -> None:
        self._tx = tx
        self._kinds = kinds
        self._scope = scope
        self._space = space
        self._asked: Ints = np.empty(0, np.int64)
        self._row_ids: Ints = np.empty(0, np.int64)
        self._vectors: Vector | None = None

    @property
    def incomplete(self) -> bool:
        return self._space is not None and len(self._row_ids) < len(self._asked)

    async def scan(self, vector: Vector | None, passing: Ints | None, most: int) -> Ints:
        """The rows whose codes are nearest to the vector's."""
        if self._space is None or vector is None or (passing is not None and not len(passing)):
            return np.empty(0, np.int64)
        code = np.packbits(vector > 0).tobytes()
        model, kinds = self._space.model, self._kinds
        if passing is None:
            return await vectors.nearest(self._tx, self._scope, model, code, most=most, kinds=kinds)
        return await vectors.nearest_among(self._tx, self._scope, model, code, passing, most=most, kinds=kinds)

    async def read(self, row_ids: Ints) -> None:
        """Read the vectors that these rows have."""
        wanted = np.setdiff1d(row_ids, self._asked)
        if self._space is None or not len(wanted):
            return
        found, read = await vectors.of_rows(self._tx, self._scope, self._space.model, wanted)
        self._asked = np.union1d(self._asked, wanted)
        if len(found):
            joined = np.concatenate([self._row_ids, found])
            both = read if self._vectors is None else np.concatenate([self._vectors, read])
            order = np.argsort(joined)
            self._row_ids, self._vectors = joined[order], both[order]

    def cosines(self, vector: Vector | None, row_ids: Ints) -> Floats:
        """The cosine of each row with the vector; NaN where the row's was not read, or does not exist."""
        found = np.full(len(row_ids), np.nan)
        if self._vectors is None or vector is None:
            return found
        known = among(self._row_ids, row_ids)
        at = np.searchsorted(self._row_ids, row_ids[known])
        found[known] = self._vectors[at] @ vector
        return found
