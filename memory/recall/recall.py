"""Recall: a query over everything said in a scope, answered with ranked hits and their neighbours.

While the queries are embedded, the matches of their words are read. Then one transaction gathers candidates, ranks
them, and reads the winners and their neighbours. An answer that may not be about the query is marked, not hidden.
``recall`` is the one way in, for tools, resources and the command line.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress

import numpy as np

from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.entries import drop_expired, is_expired
from layerlore.memory.entries.evidence import add_contradicted, add_quotes
from layerlore.memory.language.past_days import PastDays, find_past_days
from layerlore.memory.language.search_words import find_query_words, show_word
from layerlore.memory.language.sentences import split_sentences
from layerlore.memory.recall.candidates import (
    GatheredCandidates,
    RecallFilters,
    RecallQuery,
    Vector,
    VectorSpace,
    WordMatches,
    cut_question,
    embed_recent,
    find_unembedded,
    gather_candidates,
    holds_nothing,
    match_words,
)
from layerlore.memory.recall.denied_notes import mark_denied_notes
from layerlore.memory.recall.hit_lines import MessageCache, fold_message, fold_text
from layerlore.memory.recall.results import (
    Hit,
    RecallResult,
    ScoreParts,
    Verdict,
    Winner,
    find_confidence,
    join_results,
    judge,
    pick_winners,
)
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.storage.core import metrics
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.index_rows import IndexedRow
from layerlore.storage.core.records import ROLES, Message, Role, Scope
from layerlore.storage.core.scopes import RECALL_KINDS, RecallKind, read_note_place
from layerlore.storage.core.traces import annotate, span
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import subjects
from layerlore.storage.derived.entries import PLACE
from layerlore.storage.index.vectors import PendingRow
from layerlore.storage.messages import indexed_rows, windows
from layerlore.storage.messages.indexed_rows import messages_of

MOST_QUERIES = 5
# Seed 000: the neighbours of a hit.
MESSAGES_BEFORE = 2
MESSAGES_AFTER = 1
DEFAULT_LIMIT = 50
"""The default number of hits: enough to fill an answer."""
# A reply of at most four content words says little alone: it gets the message before it. One of the two best hits that asks
# for at least half of its length (in percent) gets the answer behind it. An answer has hardly more hits than 30.
_EXPLAINED_REPLIES = 30
_SHORT_REPLY = 4
_EXPLAINED_QUESTIONS = 2
_ASKING = 50

# A sentence of fewer content words ("What could be the cause?") is not searched alone.
_TELLING_WORDS = 4
_FIRST_SENTENCES = 2

NOT_ALL_EMBEDDED = "some messages have no vector yet"
# A place that is requested by its thread or its time shows its newest messages at least. They are chosen among these
# rows.
_NEWEST_ROWS = 400
_FEW_NEWEST = 3
# The values of a label.
_YES_NO = ("no", "yes")


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """The queries, and the places to search. Times are milliseconds since 1970 and compare with the time of a message.
    The roles are of messages; in a thread those entries are searched for that have a source there.

    ``neighbours``: with all around each hit; ``explained``: with those that the best hits need to be understood.
    ``asking``: the thread that the caller is in. ``in_context``: its newest user message, everything after it, its own
    notes and the profile are no hits, since the caller's model sees them anyway; contexts say so, recall_memory does not.

    ``subject``: rows about another one are no hits, and are not counted (left out: the subject of the thread ``asking``,
    unless one thread is searched).

    ``min_score`` takes the place of the operator's floor: hits of a lower score are held back (seed 003's
    ``semanticThreshold``); 0 holds nothing back. None: the floor of the rules holds."""

    queries: Sequence[str]
    limit: int = DEFAULT_LIMIT
    thread_id: str | None = None
    since: int | None = None
    until: int | None = None
    roles: Sequence[Role] = ROLES
    kinds: Sequence[RecallKind] = RECALL_KINDS
    neighbours: bool = False
    explained: bool = False
    asking: str = ""
    in_context: bool = False
    min_score: float | None = None
    subject: str = ""

    @property
    def filters(self) -> RecallFilters | None:
        """The filters of the request; None where everything that matches may be found."""
        beside_messages = set(RECALL_KINDS) - {"entry"}
        # The index has a part for entries alone, and one for all the rest.
        parts = set(self.kinds) == {"entry"} or beside_messages <= set(self.kinds)
        everywhere = self.thread_id is None and self.since is None and self.until is None
        if everywhere and parts and len(self.roles) == len(ROLES):
            return None
        if "message" in self.kinds:
            of_messages = self.roles
        else:
            of_messages = ()
        others = [kind for kind in self.kinds if kind != "message"]
        return RecallFilters(self.thread_id, self.since, self.until, [*of_messages, *others])

    @property
    def names_place(self) -> bool:
        """Whether the request names a thread or a time."""
        return self.thread_id is not None or self.since is not None or self.until is not None


@dataclass(frozen=True, slots=True)
class PreparedRecall:
    """A recall whose queries are embedded and whose words are matched: one transaction finds the rest. ``degraded``
    says why vectors are missing; ``is_empty``: nothing at all is stored in the scope; ``cache`` has the messages that were
    found before."""

    request: RecallRequest
    queries: Sequence[RecallQuery]
    words: tuple[str, ...]
    matches: WordMatches
    space: VectorSpace | None
    rules: RecallRules
    now: int
    degraded: tuple[str, ...]
    is_empty: bool = False
    cache: MessageCache = field(default_factory=MessageCache)


async def recall(engine: Engine, scope: Scope, request: RecallRequest) -> RecallResult:
    """Find what is remembered about the queries.

    Raises InvalidInput without a query, LimitExceeded for too many.
    """
    if not engine.entries.enabled:
        request = replace(request, kinds=[kind for kind in request.kinds if kind != "entry"])
        if not request.kinds:
            raise InvalidInput("kinds: this agent keeps no entries (entries.enabled = false); other kinds are allowed")
    found = await _recall(engine, scope, request)
    is_unsure = found.confidence != "sure"
    metrics.RECALLS.add(_YES_NO[bool(found.degraded)], _YES_NO[is_unsure])
    annotate("gen_ai.memory.record.count", len(found.hits))
    return found


async def _recall(engine: Engine, scope: Scope, request: RecallRequest) -> RecallResult:
    prepared = await prepare_recall(engine, scope, request, engine.recall)
    with span("rank"):
        found = await engine.database.read(_find_shown, scope, engine, prepared)
    # A thread is the project's; the query's vector is at hand by now.
    if not scope.person or request.thread_id is not None:
        return found
    beside = await prepare_recall(engine, scope.of_person, replace(prepared.request, asking=""), engine.recall)
    with span("rank"):
        found_beside = await engine.database.read(_find_shown, scope.of_person, engine, beside)
    return join_results(found, found_beside, request.limit)


async def _find_shown(tx: Tx, scope: Scope, engine: Engine, prepared: PreparedRecall) -> RecallResult:
    """The hits as an answer shows them: entries with what they quote, and with what says otherwise."""
    request, found = prepared.request, await find_current_hits(tx, scope, prepared)
    found = replace(found, hits=await mark_denied_notes(tx, scope, found.hits))
    if not any(hit.is_entry for hit in found.hits):
        return found
    shown = [hit.message for hit in found.hits]
    # Other contradicting entries may be outside the filters.
    if request.filters is None and not request.subject:
        shown = drop_expired(await add_contradicted(tx, scope, shown), prepared.now)
    quoted = await add_quotes(tx, scope, engine, shown, request.subject)
    by_id = {(hit.message.thread_id, hit.message.seq): hit for hit in found.hits}
    hits: list[Hit] = []
    for message in quoted:
        # An entry that only its pair found ranks with that.
        hit = by_id.get((message.thread_id, message.seq)) or replace(
            by_id[_find_place_of_pair(message, by_id)], before=[], after=[], chunk=0
        )
        hits.append(replace(hit, message=message))
    return replace(found, hits=hits)


def _find_place_of_pair(entry: Message, found: Mapping[tuple[str, int], Hit]) -> tuple[str, int]:
    paired = [entry.metadata.get("newer"), *entry.metadata.get("older", ())]
    return next(place for place, hit in found.items() if hit.is_entry and hit.message.id in paired)


async def prepare_recall(
    engine: Engine, scope: Scope, request: RecallRequest, rules: RecallRules, *, at_hand: bool = False
) -> PreparedRecall:
    """Embed the queries, and meanwhile read which rows have their words: where there is nothing to find, no vector is
    waited for. ``at_hand``: use only vectors that cost no request.

    Raises InvalidInput without a query, LimitExceeded for too many.
    """
    given = _check_queries(engine, request)
    texts = _add_sentences(engine, given)
    each = [tuple(find_query_words(text)) for text in texts]
    sought = tuple(dict.fromkeys(word for words in each for word in words))
    days = [named for text in given for named in find_past_days(text, engine.now())]
    rules = rules.for_limit(request.limit)
    embedding = asyncio.create_task(_embed(engine, texts, each, at_hand=at_hand))
    try:
        with span("match words"):
            before = await engine.database.read(_read_before, scope, engine, request, sought, days, rules)
        request = replace(request, subject=before.subject)
        vectors: list[Vector | None] = [None] * len(texts)
        reasons: tuple[str, ...] = ()
        if not before.nothing or embedding.done():
            vectors, reasons = await embedding
    finally:
        # After an error or a cancellation the embedding would go on without a caller.
        embedding.cancel()
    # Sentences belong to the one query that was given.
    numbers = [number if number < len(given) else 0 for number in range(len(texts))]
    queries = [RecallQuery(*query) for query in zip(each, vectors, numbers, strict=True)]
    space = find_space(engine, vectors)
    # The newest rows may still lack a vector. A few of them are embedded here, so that they can be found at once.
    if (
        space is not None
        and engine.embedding is not None
        and not await embed_recent(engine, engine.embedding, before.unembedded)
    ):
        reasons = (*reasons, NOT_ALL_EMBEDDED)
    cache = engine.caches.of(MessageCache)
    is_empty = before.nothing and not len(before.matches.asking)
    return PreparedRecall(
        request, queries, sought, before.matches, space, rules, engine.now(), reasons, is_empty, cache
    )


@dataclass(frozen=True, slots=True)
class _EarlyRows:
    """The rows that are read while the queries are embedded, in one transaction: the newest rows without a vector, the
    matches of the words, whether there is ``nothing`` to find for any question, and the ``subject`` that applies."""

    unembedded: Sequence[PendingRow]
    matches: WordMatches
    nothing: bool
    subject: str


async def _read_before(
    tx: Tx,
    scope: Scope,
    engine: Engine,
    request: RecallRequest,
    words: Sequence[str],
    days: Sequence[PastDays],
    rules: RecallRules,
) -> _EarlyRows:
    subject = request.subject
    if request.asking and not subject and request.thread_id is None:
        subject = await subjects.read_subject(tx, scope, request.asking)
    matches = await match_words(
        tx, scope, words, request.filters, rules, request.kinds, request.asking, days, request.in_context, subject
    )
    unembedded = await find_unembedded(tx, scope, engine.embedding, matches.asking)
    return _EarlyRows(unembedded, matches, await holds_nothing(tx, scope, matches), subject)


def _check_queries(engine: Engine, request: RecallRequest) -> list[str]:
    if request.since is not None and request.until is not None and request.since > request.until:
        raise InvalidInput("since: it is later than until, so nothing could be found")
    # Models like to give their question again among its wordings.
    queries = list(dict.fromkeys(query for query in request.queries if query.strip()))
    if not queries:
        raise InvalidInput("query: give a question or some words to look for")
    if len(queries) > MOST_QUERIES:
        raise LimitExceeded(f"queries: {len(queries)} given; at most {MOST_QUERIES} in one call are allowed")
    return [part for query in queries for part in cut_question(query, engine.limits.query_bytes)]


def _add_sentences(engine: Engine, given: Sequence[str]) -> list[str]:
    """The queries, and behind a single one of several sentences those that say enough to be searched alone: a question
    after a description of the situation is otherwise lost among the words of that.

    None for a remote embedder, which would get a request for each."""
    remote = engine.embedding is not None and not engine.embedding.embedder.local
    if len(given) > 1 or remote:
        return list(given)
    sentences = split_sentences(given[0])
    if len(sentences) < 2:
        return list(given)
    telling = [each for each in sentences if len(find_query_words(each)) >= _TELLING_WORDS]
    # Of a long text the beginning and the end: there people say what they want.
    if len(telling) >= MOST_QUERIES:
        telling = [*telling[:_FIRST_SENTENCES], *telling[_FIRST_SENTENCES + 1 - MOST_QUERIES :]]
    return list(dict.fromkeys([given[0], *telling]))


async def _embed(
    engine: Engine, texts: Sequence[str], each: Sequence[Sequence[str]], *, at_hand: bool
) -> tuple[list[Vector | None], tuple[str, ...]]:
    """The vectors of the queries that have a word, and the reasons why some are missing, each once."""
    embedding = engine.embedding
    if embedding is None:
        return [None] * len(texts), ()

    async def embedded(text: str, words: Sequence[str]) -> tuple[Vector | None, str]:
        if not words:
            return None, ""
        made, reason = await embedding.query(text, at_hand=at_hand)
        # That a remote embedder is not asked is not a failure.
        by_design = at_hand and not embedding.embedder.local
        return (None if made is None else made.vector), "" if by_design else reason

    with span("embed queries"):
        answers = await asyncio.gather(*(embedded(text, words) for text, words in zip(texts, each, strict=True)))
    return [vector for vector, _ in answers], tuple(dict.fromkeys(reason for _, reason in answers if reason))


def find_space(engine: Engine, vectors: Sequence[Vector | None]) -> VectorSpace | None:
    """The space that the vectors are compared in; None if there are no vectors."""
    if engine.embedding is None or all(vector is None for vector in vectors):
        return None
    embedder = engine.embedding.embedder
    return VectorSpace(embedder.name, embedder.weight, embedder.squeezed, embedder.calibration)


async def find_current_hits(tx: Tx, scope: Scope, prepared: PreparedRecall) -> RecallResult:
    """The hits without entries and lines of notes that have ended: what recall_memory and contexts both show.

    A context differs from a recall of the same question only in this: it leaves out what its model sees anyway
    (``RecallRequest.in_context``), asks no remote embedder, shows up to ``entries.auto_inject_top_k`` entries, and more
    lines where it has room."""
    found = await find_hits(tx, scope, prepared)
    # What has ended is shown to a caller that asks for its days.
    if prepared.request.since is not None or prepared.request.until is not None:
        return found
    current = [hit for hit in found.hits if not is_expired(hit.message, prepared.now)]
    return replace(found, hits=current, confidence=found.confidence if current else "nothing")


async def find_hits(tx: Tx, scope: Scope, prepared: PreparedRecall) -> RecallResult:
    """Gather the candidates, rank them, and read the hits and their neighbours."""
    request, space, rules = prepared.request, prepared.space, prepared.rules
    gathered = await gather_candidates(tx, scope, prepared.queries, prepared.matches, space, rules, request.kinds)
    verdicts = [
        judge(gathered, number, space, rules, now=prepared.now, floor=request.min_score)
        for number in range(len(prepared.queries))
    ]
    winners, held_back = pick_winners(gathered, verdicts, request.limit, request.min_score)
    hits = await _read_hits(tx, scope, prepared, gathered, verdicts, winners)
    passing = prepared.matches.passing
    if passing is not None and not len(passing):
        # Nothing passes the filters, so nothing more would be found with all vectors.
        degraded: tuple[str, ...] = ()
    elif gathered.unembedded:
        degraded = (*prepared.degraded, NOT_ALL_EMBEDDED)
    else:
        degraded = prepared.degraded
    newest_only = False
    # An empty answer would read as if the named place held nothing, so its newest messages stand in.
    if not hits and not held_back and not request.in_context and (request.names_place or degraded):
        hits = await _read_newest(tx, scope, prepared)
        newest_only = bool(hits)
    return RecallResult(
        hits,
        words=tuple(map(show_word, prepared.words)),
        signals=("lexical", "semantic") if any(verdict.embedded for verdict in verdicts) else ("lexical",),
        degraded=tuple(dict.fromkeys(degraded)),
        held_back=held_back,
        weights=prepared.matches.weights,
        confidence=find_confidence([each.confidence for each in verdicts]) if winners else "nothing",
        newest_only=newest_only,
        silent=prepared.matches.silent,
        is_empty=prepared.is_empty and not hits,
    )


async def _read_newest(tx: Tx, scope: Scope, prepared: PreparedRecall) -> list[Hit]:
    """The newest messages that pass the filters, newest first: a place that is requested by its name or its time has
    something to show, whatever its words are. Three of all that is stored, where no place is named and meanings could not be
    compared."""
    request, matches = prepared.request, prepared.matches
    if matches.passing is None:
        passing = matches.within
    else:
        passing = matches.passing
    if passing is None:
        roles = [
            *(request.roles if "message" in request.kinds else ()),
            *(kind for kind in request.kinds if kind != "message"),
        ]
        passing = await indexed_rows.passing(tx, scope, thread_id=None, since=None, until=None, roles=roles)
    if not len(passing):
        return []
    rows = await indexed_rows.around(tx, scope, passing[-_NEWEST_ROWS:])
    among = set(passing.tolist())
    there = [row for row in rows if row.chunk == 0 and row.row_id in among]
    there.sort(key=lambda row: (row.said_at, row.row_id), reverse=True)
    newest = there[: request.limit if request.names_place else min(request.limit, _FEW_NEWEST)]
    read = await messages_of(tx, scope, [(row.thread_uid, row.seq) for row in newest], prepared.cache.maker(scope))
    found = [read[row.thread_uid, row.seq] for row in newest if (row.thread_uid, row.seq) in read]
    # The caller's own question is often the newest message, and answers nothing.
    questions = {fold_text(query) for query in request.queries}
    found = [message for message in found if fold_message(message) not in questions]
    return [Hit(message, 0.0, _make_no_parts, kept=prepared.cache.texts_of(scope, message)) for message in found]


def _make_no_parts() -> ScoreParts:
    """The parts of a hit that no word and no meaning found."""
    return ScoreParts(
        query=0, relevance=0.0, ranking=0.0, added={}, cosine=None, recency=1.0, words=(), context_words=()
    )


async def _read_hits(
    tx: Tx,
    scope: Scope,
    prepared: PreparedRecall,
    gathered: GatheredCandidates,
    verdicts: Sequence[Verdict],
    winners: Sequence[Winner],
) -> list[Hit]:
    """The winners' messages and the neighbours that they need, or with all if asked; all read at once."""
    rows = list(gathered.rows.take(np.array([winner.row for winner in winners], np.int64)))
    alone = not (prepared.request.neighbours or prepared.request.explained)
    reaches = [(0, 0) if alone else _choose_reach(row, rank, prepared.request) for rank, row in enumerate(rows)]
    read = await messages_of(
        tx,
        scope,
        [
            (row.thread_uid, row.seq + step)
            for row, (before, after) in zip(rows, reaches, strict=True)
            for step in range(-before, after + 1)
        ],
        prepared.cache.maker(scope),
    )
    hits = []
    for winner, row, reach in zip(winners, rows, reaches, strict=True):
        if (row.thread_uid, row.seq) in read:
            if any(reach):
                around = await _find_neighbours(tx, scope, (row.thread_uid, row.seq), read, reach)
            else:
                around = ([], [])
            explain = partial(_make_parts, gathered, verdicts, winner, prepared.queries[winner.query].number)
            message = read[row.thread_uid, row.seq]
            texts = prepared.cache.texts_of(scope, message)
            hits.append(Hit(message, winner.score, explain, *around, row.chunk, texts))
    return hits


def _choose_reach(row: IndexedRow, rank: int, request: RecallRequest) -> tuple[int, int]:
    """How many messages before and after a hit are shown with it."""
    if row.thread_uid.startswith(PLACE) or read_note_place(row.thread_uid) is not None:
        return 0, 0
    if request.neighbours:
        return MESSAGES_BEFORE, MESSAGES_AFTER
    if not request.explained:
        return 0, 0
    if row.asks >= _ASKING:
        return 0, int(rank < _EXPLAINED_QUESTIONS)
    return int(rank < _EXPLAINED_REPLIES and row.content_words <= _SHORT_REPLY), 0


async def _find_neighbours(
    tx: Tx, scope: Scope, place: tuple[str, int], read: Mapping[tuple[str, int], Message], reach: tuple[int, int]
) -> tuple[list[Message], list[Message]]:
    """The messages before and after one, in order. Deleted ones leave holes in the seqs: then those beyond serve."""
    uid, seq = place
    most_before, most_after = reach
    first = max(1, seq - most_before)
    before = [read[uid, at] for at in range(first, seq) if (uid, at) in read]
    after = [read[uid, at] for at in range(seq + 1, seq + most_after + 1) if (uid, at) in read]
    if len(before) == seq - first and len(after) == most_after:
        return before, after
    thread_id = read[place].thread_id
    return await windows.neighbours(tx, scope, uid, thread_id, seq, before=most_before, after=most_after)


def _make_parts(gathered: GatheredCandidates, verdicts: Sequence[Verdict], winner: Winner, number: int) -> ScoreParts:
    """The parts of the score of a winner that the caller's query with this number found."""
    row, verdict = winner.row, verdicts[winner.query]
    question, ranked = gathered.questions[winner.query], verdict.ranked
    if question.cosines is None:
        cosine = math.nan
    else:
        cosine = float(question.cosines[row])
    return ScoreParts(
        query=number,
        relevance=verdict.relevance,
        ranking=winner.ranking,
        added={name: float(values[row]) for name, values in ranked.added.items()},
        cosine=None if math.isnan(cosine) else cosine,
        recency=float(ranked.recency[row]),
        words=tuple(map(show_word, compress(question.words, question.has[:, row]))),
        context_words=tuple(map(show_word, compress(question.words, ranked.context_has[:, row]))),
    )
