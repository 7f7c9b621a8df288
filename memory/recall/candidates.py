"""The question of a thread, and the candidates of a recall: the rows that have the rarest words of a query, those whose
vectors are nearest to it, and the rows around both, with everything that ranking needs.

The matches of words are read while the query is still being embedded, in a transaction of its own. A row that is gone
by the second transaction is left out there; one that is new can still be found by its vector.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import anyio
import numpy as np
from numpy.typing import NDArray

from layerlore.memory.embedding.port import EmbeddingFailed
from layerlore.memory.embedding.relevance import Calibration, RelevanceEvidence, measure_standing, measure_unknown
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.engine.engine import Engine
from layerlore.memory.language.past_days import PastDays
from layerlore.memory.recall import ranking
from layerlore.memory.recall.ranking import Flags, Floats, Ints, Pool, Question
from layerlore.memory.recall.vector_writer import embed_awaited
from layerlore.memory.rules.ages import name_days
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.memory.text.echoes import strip_echoes
from layerlore.storage.core.errors import LayerloreError, NotFound
from layerlore.storage.core.index_rows import SEQ, THREAD, IndexedRows, RowIdArray, sort_distinct
from layerlore.storage.core.records import ROLES, Json, Message, Scope, Thread
from layerlore.storage.core.scopes import RECALL_KINDS, Kind, RecallKind, index_kinds, read_note_place
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, note_rows, subjects
from layerlore.storage.index import lexical as index_lexical
from layerlore.storage.index import vectors
from layerlore.storage.index.vectors import PendingRow
from layerlore.storage.messages import indexed_rows, windows
from layerlore.storage.threads import threads

# If a message is longer than two of these, its beginning and its end are searched: there the question stands.
_ASKED_CHARS = 500


async def find_asking(tx: Tx, scope: Scope, thread_id: str) -> tuple[Thread, Message] | None:
    """The thread and its newest message that the user wrote; None if none exists."""
    try:
        thread = await threads.find(tx, scope, thread_id)
    except NotFound:
        return None
    newest = await windows.find_last_said(tx, scope, thread)
    if newest:
        return (thread, newest)
    return None


async def read_question(tx: Tx, scope: Scope, thread_id: str, most_bytes: int) -> list[str]:
    """The question in the user's newest message of the thread: its text, or the beginning and the end of a long one,
    each of at most ``most_bytes``; none without a question."""
    found = await find_asking(tx, scope, thread_id)
    if found:
        return split_question(found[1].parts, most_bytes)
    return []


async def read_asking_rows(tx: Tx, scope: Scope, thread_id: str) -> RowIdArray:
    """The rows of the index, ascending, of the user's newest message of the thread and of what came after it."""
    found = await find_asking(tx, scope, thread_id)
    if found is None:
        return np.empty(0, np.int64)
    thread, newest = found
    return await indexed_rows.row_ids_from(tx, scope, thread.thread_uid, newest.seq)


async def read_shown_notes(tx: Tx, scope: Scope, thread_id: str) -> RowIdArray:
    """The rows of the index, ascending, of the notes that a context of the thread shows whole."""
    try:
        if thread_id:
            uid = (await threads.find(tx, scope, thread_id)).thread_uid
        else:
            uid = ""
    except NotFound:
        uid = ""
    return await indexed_rows.shown_beside(tx, scope, uid)


def split_question(parts: Sequence[Json], most_bytes: int) -> list[str]:
    """The question of a message: what its author wrote, without our echoes; of a long one its beginning and its end."""
    text = strip_echoes("\n".join(part["text"] for part in parts if part["type"] == "text")).strip()
    if len(text) <= 2 * _ASKED_CHARS and len(text.encode()) <= most_bytes:
        if text:
            return [text]
        return []
    return _cut_ends(text[:_ASKED_CHARS], text[-_ASKED_CHARS:], most_bytes)


def cut_question(question: str, most_bytes: int) -> list[str]:
    """The question as recall takes it; of a long one the beginning and the end, where people say what they want. None of an
    empty one."""
    if len(question.encode("utf-8", "replace")) > most_bytes:
        return _cut_ends(question, question, most_bytes)
    if question.strip():
        return [question]
    return []


def _cut_ends(beginning: str, end: str, most_bytes: int) -> list[str]:
    """The first bytes of a text and the last ones of another. A character that the cut splits is dropped."""
    first = beginning.encode("utf-8", "replace")[:most_bytes]
    last = end.encode("utf-8", "replace")[-most_bytes:]
    return [first.decode("utf-8", "ignore"), last.decode("utf-8", "ignore")]


Vector = NDArray[np.float32]
Place = tuple[str, int]
"""A message's thread uid and seq."""

# A chunk of 800 characters has about this number of tokens: a long message has many more rows.
_TOKENS_OF_CHUNK = 200
# The most that a row counts in the size of a scope: 800 characters may be as many tokens.
_SIZE_OF_ROW = 5
# Where a few long messages fill a list of candidates, this many times its length is searched for others.
_LOOKED_THROUGH = 16
# The share that a row counts among the candidates if it only asks or says nothing: a stored question has all words of
# its own.
_QUIET_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """The words of a query or of a sentence of it, its vector (of unit length) where there is one, and the number of the
    query among those that the caller gave."""

    words: tuple[str, ...]
    vector: Vector | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """A space of vectors: the model that they are stored under, and what its cosines are worth (see ``Embedder``)."""

    model: str
    weight: float
    squeezed: bool
    calibration: Calibration | None


@dataclass(frozen=True, slots=True)
class RecallFilters:
    """The filters of a recall; None filters nothing. Times are milliseconds since 1970. The role ``entry`` means
    entries, and the kind of a note such notes."""

    thread_id: str | None
    since: int | None
    until: int | None
    roles: Sequence[str]


@dataclass(frozen=True, slots=True)
class GatheredCandidates:
    """The rows of ``pool`` and, for each query, which of them are candidates, the question, and what is known of its
    relevance before it is ranked. ``passing``: which rows pass the filters; the others are there to compare with.
    ``unembedded``: some candidate still lacks a vector."""

    rows: IndexedRows
    pool: Pool
    candidates: tuple[Flags, ...]
    passing: Flags
    questions: tuple[Question, ...]
    evidence: tuple[RelevanceEvidence, ...]
    unembedded: bool


@dataclass(frozen=True, slots=True)
class WordMatches:
    """The matches of the words of all queries. Row ids ascend.

    For each word: the rows that have it (``postings``), its idf (``weights``), and how many rows beside quiet ones have it
    (``told``). ``size``: about how many rows the scope has. ``quiet``: rows that say hardly anything, such as questions
    and short answers. ``passing``: the rows that pass the filters; None without filters. ``asking``: rows that the
    caller's model sees anyway; they are no hits, and no word counts them. ``within``: the rows that are not about another
    subject; None if no row is about another one. ``silent``: the days that the question names, if no message is of any
    of them."""

    postings: Mapping[str, Ints]
    weights: Mapping[str, float]
    told: Mapping[str, int]
    size: int
    quiet: Ints
    passing: Ints | None
    asking: Ints
    within: Ints | None = None
    silent: tuple[str, ...] = ()


async def match_words(
    tx: Tx,
    scope: Scope,
    words: Sequence[str],
    filters: RecallFilters | None,
    rules: RecallRules,
    kinds: Sequence[RecallKind] = RECALL_KINDS,
    asking: str = "",
    days: Sequence[PastDays] = (),
    in_context: bool = False,
    subject: str = "",
) -> WordMatches:
    """Read which rows have the words, how much each word weighs, and which rows pass the filters. Rows about another
    ``subject`` are left out; ``in_context`` the newest turn of the thread ``asking`` and the notes that a context of it shows
    whole, too. A row has the words that name ``days``, too, if its message is of that day."""
    others = (await subjects.find_others(tx, scope, subject)).rows
    left_out = others
    if in_context:
        if asking:
            own_turn = await read_asking_rows(tx, scope, asking)
        else:
            own_turn = np.empty(0, np.int64)
        left_out = sort_distinct(np.concatenate([others, own_turn, await read_shown_notes(tx, scope, asking)]))
    sought = [*words, index_lexical.QUIET]
    found = await index_lexical.postings(tx, scope, sought, most=rules.rows_per_word, kinds=index_kinds(kinds))
    quiet = found.pop(index_lexical.QUIET)
    roles = [*(ROLES if "message" in kinds else ()), *(kind for kind in kinds if kind != "message")]
    silent: list[str] = []
    for each in days:
        said = await _read_passing(tx, scope, RecallFilters(None, each.since, each.until, roles))
        if not len(_leave_out(left_out, said)):
            silent.append(name_days((each.since, each.until)))
        # Row ids ascend, so these are the newest rows of the day, as many as any word may have.
        said = said[-rules.rows_per_word :]
        found |= {word: sort_distinct(np.concatenate([found[word], said])) for word in each.words if word in found}
    postings = {word: _leave_out(left_out, rows) for word, rows in found.items()}
    # A word's rarity is measured within the part of the index that is searched.
    if set(kinds) == {"entry"}:
        size = await entries.count(tx, scope)
    else:
        size = await _count_rows(tx, scope)
    size = max(0, size - len(others))
    # Stored questions repeat the words of a query, and would make rare words look common.
    told = {word: len(rows) - int(find_among(quiet, rows).sum()) for word, rows in postings.items()}
    weights = {word: ranking.compute_idf(told[word], size) for word in words}
    if filters is None:
        passing = None
    else:
        passing = _leave_out(others, await _read_passing(tx, scope, filters))
    within: Ints | None = None
    if len(others):
        # Rows of other subjects would take the places of the nearest ones.
        within = _leave_out(others, await _read_passing(tx, scope, RecallFilters(None, None, None, roles)))
    # If one of several days has messages, their lines answer.
    if len(silent) < len(days):
        silent = []
    return WordMatches(postings, weights, told, size, quiet, passing, left_out, within, tuple(silent))


async def holds_nothing(tx: Tx, scope: Scope, matches: WordMatches) -> bool:
    """Whether the scope has no row but those of the caller's own question. If the scope has more than a few, nothing
    is read."""
    if matches.size > _SIZE_OF_ROW * len(matches.asking):
        return False
    if matches.size:
        asking = await indexed_rows.places(tx, scope, matches.asking)
        _, messages, _ = await threads.count_live(tx, scope)
        if messages > len({place for place in asking.values() if read_note_place(place[0]) is None}):
            return False
    return not (await entries.count(tx, scope) or await note_rows.has_any(tx, scope))


async def gather_candidates(
    tx: Tx,
    scope: Scope,
    queries: Sequence[RecallQuery],
    matches: WordMatches,
    space: VectorSpace | None,
    rules: RecallRules,
    kinds: Sequence[RecallKind] = RECALL_KINDS,
) -> GatheredCandidates:
    """Read the candidates and everything that ranking needs. Without a ``space`` no vectors are read."""
    compared = _VectorReader(tx, scope, space, index_kinds(kinds), [query.vector for query in queries])
    most = rules.candidates
    # Rows that pass the filters are compared with the best of all: a filter makes nothing more or less relevant.
    if matches.passing is None:
        reaches = [matches.within]
    else:
        reaches = [matches.within, matches.passing]
    searches = [(query, reach) for reach in reaches for query in queries]
    # The lists are longer than needed: the chunks of a few long messages may fill the first places (see _choose_rows).
    lexical = [_rank_by_words(query, matches, reach, most * _LOOKED_THROUGH) for query, reach in searches]
    scanned = [
        _leave_out(matches.asking, await compared.scan(query.vector, reach, matches.quiet, rules.rescored))
        for query, reach in searches
    ]
    # All lists share one read, since several queries often find the same rows.
    await compared.read(np.concatenate([*(by_words[:most] for by_words in lexical), *scanned]))
    near = [compared.cosines(number % len(queries), found) for number, found in enumerate(scanned)]
    semantic = [
        ranking.pick_best(found, _fill_unknown(cosines), len(found))
        for found, cosines in zip(scanned, near, strict=True)
    ]
    chosen, rows = await _choose_rows(tx, scope, [*lexical, *semantic], most)
    pool = Pool.from_rows(rows)
    candidates = []
    for number in range(len(queries)):
        # Every len(queries)-th list belongs to one query: by words and by meaning, with and without filters.
        held = find_among(sort_distinct(np.concatenate(chosen[number :: len(queries)])), pool.row_ids)
        candidates.append(pool.extend_to_context(held) & ~find_among(matches.asking, pool.row_ids))
    # Neighbours that count as context are new here, and their vectors are still to be read.
    await compared.read(pool.row_ids[np.logical_or.reduce(candidates)])
    return GatheredCandidates(
        rows,
        pool,
        tuple(candidates),
        _find_passing(matches.passing, pool),
        tuple(_make_question(number, query, matches, pool, compared, space) for number, query in enumerate(queries)),
        tuple(
            # The first lists are those without filters.
            _make_evidence(query, matches, cosines[~find_among(matches.quiet, found)])
            for query, cosines, found in zip(queries, near, scanned, strict=False)
        ),
        compared.incomplete,
    )


async def _choose_rows(tx: Tx, scope: Scope, lists: Sequence[Ints], most: int) -> tuple[list[Ints], IndexedRows]:
    """Choose the ``most`` best rows of each list, best first; where these are chunks of half as many messages or fewer,
    the best row of further messages too. And the rows around them."""
    chosen = [rows[:most] for rows in lists]
    around = await indexed_rows.around(tx, scope, sort_distinct(np.concatenate(chosen)))
    if not any(len(rows) > most and 2 * _count_messages(rows[:most], around) <= most for rows in lists):
        return chosen, around
    held = await indexed_rows.places(tx, scope, sort_distinct(np.concatenate(lists)))
    chosen = [np.array(_spread(rows, held, most), np.int64) for rows in lists]
    return chosen, await indexed_rows.around(tx, scope, sort_distinct(np.concatenate(chosen)))


def _count_messages(row_ids: Ints, rows: IndexedRows) -> int:
    """The number of messages whose chunks are the rows with these ids."""
    held = rows.numbers[find_among(np.sort(row_ids), rows.row_ids)].astype(np.int64)
    # Thread and seq in one number, so that equal numbers are chunks of one message.
    return len(sort_distinct(held[:, THREAD] * 2**32 + held[:, SEQ]))


def _best_row_by_message(rows: Ints, held: Mapping[int, Place]) -> dict[Place, int]:
    """The best row of each message, best first."""
    best: dict[Place, int] = {}
    for row in rows.tolist():
        if row in held:
            best.setdefault(held[row], row)
    return best


def _spread(rows: Ints, held: Mapping[int, Place], most: int) -> list[int]:
    return list(dict.fromkeys([*rows[:most].tolist(), *list(_best_row_by_message(rows, held).values())[:most]]))


def find_among(row_ids: Ints, wanted: Ints) -> Flags:
    """Which of the asked rows are among ``row_ids``, which ascend."""
    if not len(row_ids):
        return np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(row_ids, wanted), len(row_ids) - 1)
    return cast(Flags, row_ids[at] == wanted)


def _leave_out(left_out: Ints, row_ids: Ints) -> Ints:
    if len(left_out):
        return row_ids[~find_among(left_out, row_ids)]
    return row_ids


async def _count_rows(tx: Tx, scope: Scope) -> int:
    """About how many rows the scope has: the N of inverse document frequency. Counting them costs a scan."""
    _, messages, tokens = await threads.count_live(tx, scope)
    return messages + tokens // _TOKENS_OF_CHUNK


async def _read_passing(tx: Tx, scope: Scope, filters: RecallFilters) -> Ints:
    return await indexed_rows.passing(
        tx, scope, thread_id=filters.thread_id, since=filters.since, until=filters.until, roles=filters.roles
    )


def _find_passing(passing: Ints | None, pool: Pool) -> Flags:
    if passing is None:
        return np.ones(len(pool), np.bool_)
    return find_among(passing, pool.row_ids)


def _rank_by_words(query: RecallQuery, matches: WordMatches, passing: Ints | None, most: int) -> Ints:
    row_ids, scores = ranking.sum_weights({word: matches.postings[word] for word in query.words}, matches.weights)
    if passing is not None:
        kept = find_among(passing, row_ids)
        row_ids, scores = row_ids[kept], scores[kept]
    scores = np.where(find_among(matches.quiet, row_ids), _QUIET_SHARE * scores, scores)
    return ranking.pick_best(row_ids, scores, most)


def _fill_unknown(cosines: Floats) -> Floats:
    return np.where(np.isnan(cosines), -np.inf, cosines)


def _make_question(
    number: int,
    query: RecallQuery,
    matches: WordMatches,
    pool: Pool,
    compared: "_VectorReader",
    space: VectorSpace | None,
) -> Question:
    has = np.zeros((len(query.words), len(pool)), np.bool_)
    for at, word in enumerate(query.words):
        has[at] = find_among(matches.postings[word], pool.row_ids)
    of_words = np.array([matches.weights[word] for word in query.words], np.float64)
    question = Question(query.words, of_words, has)
    if space is None or query.vector is None:
        return question
    cosines = compared.cosines(number, pool.row_ids)
    return replace(question, cosines=cosines, semantic_weight=space.weight, squeezed=space.squeezed)


def _make_evidence(query: RecallQuery, matches: WordMatches, cosines: Floats) -> RelevanceEvidence:
    known = cosines[~np.isnan(cosines)]
    unknown, unheard = measure_unknown(
        [matches.told[word] for word in query.words], [matches.weights[word] for word in query.words]
    )
    return RelevanceEvidence(
        nearest=float(known.max(initial=0.0)),
        standing=measure_standing(known),
        unknown=unknown,
        unheard=unheard,
        rows=matches.size,
    )


class _VectorReader:
    """Reads vectors of a scope, each once, and compares them with those of the queries."""

    def __init__(
        self, tx: Tx, scope: Scope, space: VectorSpace | None, kinds: Sequence[Kind], queries: Sequence[Vector | None]
    ) -> None:
        self._tx = tx
        self._kinds = kinds
        self._scope = scope
        self._space = space
        self._asked: Ints = np.empty(0, np.int64)
        self._row_ids: Ints = np.empty(0, np.int64)
        self._queries = queries
        # By query, of each row.
        self._cosines: list[Vector] = [np.empty(0, np.float32) for _ in queries]

    @property
    def incomplete(self) -> bool:
        return self._space is not None and len(self._row_ids) < len(self._asked)

    async def scan(self, vector: Vector | None, passing: Ints | None, quiet: Ints, most: int) -> Ints:
        """The rows whose codes are nearest to the vector's; of quiet ones a share of them."""
        if not len(quiet):
            return await self._nearest(vector, passing, most)
        found = await self._nearest(vector, passing, 2 * most)
        is_quiet = find_among(quiet, found)
        # The search takes twice as many, since most of the quiet rows among them lose their places.
        few = np.cumsum(is_quiet) <= int(_QUIET_SHARE * most)
        return found[~is_quiet | few][:most]

    async def _nearest(self, vector: Vector | None, passing: Ints | None, most: int) -> Ints:
        if self._space is None or vector is None or (passing is not None and not len(passing)):
            return np.empty(0, np.int64)
        # One bit for each dimension makes a cheap first comparison, before the whole vectors are read.
        code = np.packbits(vector > 0).tobytes()
        model, kinds = self._space.model, self._kinds
        if passing is None:
            return await vectors.nearest(self._tx, self._scope, model, code, most=most, kinds=kinds)
        return await vectors.nearest_among(self._tx, self._scope, model, code, passing, most=most, kinds=kinds)

    async def read(self, row_ids: Ints) -> None:
        """Read the vectors that these rows have."""
        if self._space is None:
            return
        wanted = _leave_out(self._asked, sort_distinct(row_ids))
        if not len(wanted):
            return
        found, read = await vectors.of_rows(self._tx, self._scope, self._space.model, wanted)
        self._asked = np.sort(np.concatenate([self._asked, wanted]))
        if len(found):
            joined = np.concatenate([self._row_ids, found])
            order = np.argsort(joined)
            self._row_ids = joined[order]
            for number, vector in enumerate(self._queries):
                if vector is not None:
                    self._cosines[number] = np.concatenate([self._cosines[number], read @ vector])[order]

    def cosines(self, query: int, row_ids: Ints) -> Floats:
        """The cosine of each row with the vector of the query with this number; NaN where the query has none, or the
        row's was not read or does not exist."""
        found = np.full(len(row_ids), np.nan)
        if len(self._row_ids) and self._queries[query] is not None:
            known = find_among(self._row_ids, row_ids)
            found[known] = self._cosines[query][np.searchsorted(self._row_ids, row_ids[known])]
        return found


MOST_ROWS = 8
"""Rows that a recall embeds itself: the chunks of a turn or two, some 30 ms with an embedder on this machine."""
WAIT_SECONDS = 1.0
"""How long it waits for that at most, or for others who are at them."""
# Beyond those that it embeds, it only has to know whether there are more.
_MOST_READ = 2 * MOST_ROWS


async def find_unembedded(
    tx: Tx, scope: Scope, embedding: EmbeddingService | None, asking: RowIdArray
) -> Sequence[PendingRow]:
    """The rows among those stored last that still wait for a vector of the embedder in use; none without one. Those of the
    caller's own question (``asking``) answer nothing, and no caller waits for them."""
    if embedding is None:
        return ()
    left_out = {*embedding.refused.get(scope, ())}
    own_turn = set(asking.tolist())
    rows = await indexed_rows.find_unembedded(
        tx, scope, embedding.embedder.name, most=_MOST_READ + len(left_out) + len(own_turn)
    )
    lacking = [row for row in rows if row.row_id not in left_out]
    others = [row for row in lacking if row.row_id not in own_turn]
    # Others would not be seen behind this number of the question's own.
    if len(lacking) - len(others) < indexed_rows.RECENT_MESSAGES:
        return others
    return lacking


async def embed_recent(engine: Engine, embedding: EmbeddingService, rows: Sequence[PendingRow]) -> bool:
    """Embed the rows, if they are few and the embedder is on this machine. Whether all of them have their vectors now;
    a text that the model refuses needs none. Raises nothing but cancellation."""
    if not rows:
        return True
    if len(rows) > MOST_ROWS or not embedding.embedder.local:
        return False
    # A slow or failing embedder must not hold up the answer: words find these rows meanwhile.
    with anyio.move_on_after(WAIT_SECONDS), contextlib.suppress(EmbeddingFailed, LayerloreError):
        await embed_awaited(engine, embedding, rows)
        return True
    return False
