"""The ranking of messages by what they have to do with a question (``signals``), each signal with its weight
(``weights``). Pure functions: no clock, no database, and no order of input matters.

The ranking was measured against BM25 and reciprocal rank fusion, see ``docs/decisions.md``.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from layerlore.memory.language.search_words import split_words
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.storage.core.index_rows import (
    ASKS,
    CHARS,
    CHUNK,
    CONTENT_WORDS,
    EMPTY,
    ROLE,
    SEQ,
    SESSION_SEQ,
    SPEAKER,
    THREAD,
    IndexedRow,
    IndexedRows,
)
from layerlore.storage.core.records import DAY_MS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The context of a message: seed 000's neighbours of a hit, which measured best here too. In places of its thread.
CONTEXT = (-2, -1, 1)

# Somebody chose to keep these. An observation only says again what messages say.
_KEPT_NOTES = ("profile", "session_memory", "plan", "attempt")
# Threads are numbered; this leaves room for the seqs of each.
_THREAD = 2**44


@dataclass(frozen=True, slots=True)
class Pool:
    """Rows of the index as columns, in any order, each row once.

    Rows of one message share a number in ``messages``, those of one session a number in ``sessions``. ``in_dialogue``:
    an assistant speaks in the row's thread, as far as the rows show it. ``entries``: which rows are of entries, each
    the only message of a thread of its own; ``notes``: of notes that a person keeps. ``speakers``: the speaker's
    number in ``names``, -1 for a speaker without a name. ``beside``: for each place of CONTEXT, by row, the row of the
    first chunk of the message there, or -1. Of the whole message: ``asks``, how far it only asks, ``empty``, how far
    it says nothing, both from 0 to 1, and ``content_words``, how many different ones it has."""

    row_ids: Ints
    messages: Ints
    sessions: Ints
    chunks: Ints
    chars: Ints
    said_at: Ints
    by_user: Flags
    entries: Flags
    notes: Flags
    in_dialogue: Flags
    speakers: Ints
    names: tuple[str, ...]
    beside: Ints
    asks: Floats
    empty: Floats
    content_words: Ints

    @classmethod
    def from_rows(cls, rows: Sequence[IndexedRow]) -> "Pool":
        """Turn rows of the index into columns."""
        if isinstance(rows, IndexedRows):
            table = rows
        else:
            table = IndexedRows.of(rows)
        texts = table.names.texts
        threads, seqs, chunk = table.column(THREAD), table.column(SEQ), table.column(CHUNK)
        keys = threads * _THREAD + seqs
        role = table.column(ROLE)
        by_role = {texts[number]: role == number for number in set(role.tolist())}
        nobody = np.zeros(len(table), np.bool_)
        spoken, speakers = np.unique(table.column(SPEAKER), return_inverse=True)
        names = {number: name for number, name in enumerate(texts[each] for each in spoken.tolist()) if name}
        named = np.full(len(spoken) + 1, -1, np.int64)
        named[list(names)] = np.arange(len(names))
        numbers = _number(threads)
        # Assistants in each thread: neighbours count as context only in chats between people.
        assistants = np.bincount(numbers, weights=by_role.get("assistant", nobody))
        notes = nobody
        for kind in _KEPT_NOTES:
            notes = notes | by_role.get(kind, nobody)
        return cls(
            row_ids=table.row_ids,
            messages=_number(keys),
            sessions=_number(threads * _THREAD + table.column(SESSION_SEQ)),
            chunks=chunk,
            chars=table.column(CHARS),
            said_at=table.said_at,
            by_user=by_role.get("user", nobody),
            entries=by_role.get("entry", nobody),
            notes=notes,
            in_dialogue=assistants[numbers] > 0,
            speakers=named[speakers],
            names=tuple(names.values()),
            beside=_find_beside(keys, chunk),
            asks=table.column(ASKS) / 100,
            empty=table.column(EMPTY) / 100,
            content_words=table.column(CONTENT_WORDS),
        )

    def __len__(self) -> int:
        return len(self.row_ids)

    def spread_to_messages(self, chosen: Flags) -> Flags:
        """The rows of every message of which one is chosen."""
        found = np.zeros(len(self) + 1, np.bool_)
        found[self.messages[chosen]] = True
        return found[self.messages]

    def extend_to_context(self, chosen: Flags) -> Flags:
        """The rows that are chosen, and the first chunks of messages that have one of them as context: perhaps only
        the neighbours of a message share a word with the query. None in dialogues with an assistant."""
        around = self.spread_to_messages(chosen)
        beside = np.logical_or.reduce((self.beside >= 0) & around[self.beside])
        return cast(Flags, chosen | (beside & (self.chunks == 0) & ~self.in_dialogue))


def _number(keys: Ints) -> Ints:
    """For each row the number of its key, counted in ascending order of the keys."""
    # The rows of an index ascend in most cases, and then nothing is to be sorted.
    if len(keys) and (keys[1:] >= keys[:-1]).all():
        return np.concatenate(([0], np.cumsum(keys[1:] != keys[:-1])))
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _find_beside(keys: Ints, chunks: Ints) -> Ints:
    wanted = keys + np.array(CONTEXT)[:, None]
    first = np.flatnonzero(chunks == 0)
    # The first chunk stands for its message, so that a neighbour is one row.
    if not len(first):
        return np.full_like(wanted, -1)
    first = first[np.argsort(keys[first])]
    ordered = keys[first]
    at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.where(ordered[at] == wanted, first[at], -1)


# Fitted on three sets of conversations, with and without their questions stored: see docs/decisions.md.
WITH_VECTORS = {
    "lexical": 3.49,
    "context": 4.5,
    "semantic": 2.83,
    "speaker": 3.26,
    "role": 1.4,
    "session": 1.53,
    "asks": -2.82,
    "empty": -1.7,
    "same": -12.0,
    "answers": 0.24,
    "answered": 6.0,
    "followed": 1.3,
}
WORDS_ALONE = {
    "lexical": 5.27,
    "context": 5.4,
    "speaker": 2.72,
    "role": 1.4,
    "session": 2.64,
    "asks": -1.44,
    "empty": -0.28,
    "same": -12.0,
    "answers": 0.58,
    "answered": 6.0,
}

# Cosines closer than this are equal.
_NO_DIFFERENCE = 1e-6
_MONTHS = frozenset(
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
# The best match by words counts as having at least this share of the question. Where a stray word is all that was
# found, meaning decides.
_LEAST_SHARE = 0.5
# The share that a word counts if only the messages around a short one have it.
_CONTEXT_WORD = 0.5
# A message with fewer content words and a question only asks; one with more also states something.
_SHORT_QUESTION = 10
_LONG_QUESTION = 30
# From here on a row hardly states anything.
_QUIET_ASKS, _QUIET_EMPTY = 0.8, 0.5
# From here on a row is the question itself: what answered it stands for it.
_THE_SAME = 0.7
# The first look: what makes a session good. The formula that the weights were fitted from.
_FIRST_LOOK = {"lexical": 1.0, "context": 1.0, "semantic": 0.5, "speaker": 0.4, "role": 0.3}


@dataclass(frozen=True, slots=True)
class Question:
    """A query as the rows of a pool answer it. ``has``: for each word, which rows have it; ``weights``: its idf;
    ``cosines`` of the rows, NaN where one has no vector, or None where none serve. ``semantic_weight`` and ``squeezed``
    are the embedder's: cosines of some models fill only a part of their range, so only their order counts."""

    words: tuple[str, ...]
    weights: Floats
    has: Flags
    cosines: Floats | None = None
    semantic_weight: float = 0.5
    squeezed: bool = False


@dataclass(frozen=True, slots=True)
class Signals:
    """``by_name``: for each signal its value by row, in most cases from 0 to 1:

    - ``lexical``: the share of the question's words, by idf, that the row has, of the best row's share;
    - ``context``: the same of words that only messages around a short one have;
    - ``semantic``: its cosine as a share of the largest;
    - ``speaker``: said by the one speaker whom the question names;
    - ``role``: said by the user to an assistant, or an entry or a note;
    - ``asks``, ``empty``: how far it only asks, or says nothing;
    - ``same``: how far it asks the same as the question;
    - ``answers``: how far the message before it asks;
    - ``answered``: how far the message before it asks the same as the question, for which it stands;
    - ``followed``: the nearness in meaning of the message after it;
    - ``session``: the first look at the best of its session.

    ``found``: the candidates that share a word or a meaning with the question and are not the question itself, and what
    answered that; ``context_has``: the words that a row
    owes to its context; ``coverage``: the share of the question's words that it has, by idf, those of its context in
    part; ``tells``: whether it is neither a short question nor an empty answer."""

    by_name: dict[str, Floats]
    found: Flags
    context_has: Flags
    coverage: Floats
    tells: Flags


def measure_signals(pool: Pool, candidates: Flags, question: Question, rules: RecallRules) -> Signals:
    """Measure what each row of the pool has to do with the question."""
    long = (pool.content_words - _SHORT_QUESTION) / (_LONG_QUESTION - _SHORT_QUESTION)
    asks = pool.asks * np.clip(1.0 - long, 0.0, 1.0)
    tells = ((asks < _QUIET_ASKS) & (pool.empty < _QUIET_EMPTY)) | pool.entries | pool.notes
    # Rows that state something set the scale. If only questions match, those have to do.
    if (candidates & tells).any():
        measures = candidates & tells
    else:
        measures = candidates
    context_has = _find_context(pool, question, rules)
    own, around = _weigh(question, question.has), _CONTEXT_WORD * _weigh(question, context_has)
    total = float(question.weights.sum())
    reference = max(float((own + around)[measures].max(initial=0.0)), _LEAST_SHARE * total) or 1.0
    semantic = _compare_meaning(question, candidates, measures)
    same = asks * _find_sameness(pool, question, semantic)
    by_name = {
        "lexical": np.minimum(own / reference, 1.0),
        "context": np.minimum(around / reference, 1.0),
        "semantic": semantic,
        "speaker": _find_named_speaker(pool, question.words).astype(np.float64),
        "role": np.where(pool.entries | pool.notes, 1.0, (pool.by_user & pool.in_dialogue) * (1.0 - asks)),
        "asks": asks,
        "empty": pool.empty,
        "same": same,
        "answers": _take(asks, pool.beside[1]),
        "answered": _take(np.where(candidates, same, 0.0), pool.beside[1]) * (1.0 - pool.empty),
        "followed": _take(semantic, pool.beside[2]),
    }
    # A stored copy of the question does not answer it; the message behind it may.
    found = candidates & (by_name["lexical"] + by_name["context"] + semantic > 0) & (same < _THE_SAME)
    found |= by_name["answered"] >= _THE_SAME
    first = sum((weight * by_name[name] for name, weight in _FIRST_LOOK.items()), np.zeros(len(pool)))
    by_name["session"] = _best_in_group(pool.sessions, first, found & tells)
    return Signals(by_name, found, context_has, (own + around) / (total or 1.0), tells)


def _take(values: Floats, at: Ints) -> Floats:
    """The values at these rows, 0 for a missing row (-1)."""
    if len(values):
        return np.where(at >= 0, values[at], 0.0)
    return values


def _find_sameness(pool: Pool, question: Question, semantic: Floats) -> Floats:
    """How far each row has the question's words, and no others, and means the same; 0 where it is half so."""
    has = question.has.sum(axis=0)
    covered = has / max(len(question.words), 1)
    filled = np.minimum(1.0, has / np.maximum(pool.content_words, 1))
    if question.cosines is None:
        near = np.ones(len(pool))
    elif question.squeezed:
        near = semantic
    else:
        near = np.clip(np.where(np.isnan(question.cosines), 1.0, question.cosines), 0.0, 1.0)
    return np.asarray(np.clip(2 * covered * filled * near - 1, 0.0, 1.0), np.float64)


def _weigh(question: Question, has: Flags) -> Floats:
    """For each row the summed idf of its words, in a fixed order: equal rows get equal sums to the last bit."""
    order = sorted(range(len(question.words)), key=question.words.__getitem__)
    total: Floats = (question.weights[order, None] * has[order]).sum(axis=0)
    return total


def _find_context(pool: Pool, question: Question, rules: RecallRules) -> Flags:
    """Which words a short message lacks and a short message around it has. A speaker's name or a date stands beside
    every message: no context."""
    short = pool.chars <= rules.context_chars
    fits = short & ~pool.in_dialogue
    if not fits.any():
        return np.zeros_like(question.has)
    names = {word for name in pool.names for word in split_words(name)}
    counts = np.array([not _is_of_every_message(word, names) for word in question.words], np.bool_)
    # ``take`` takes a fifth of the time of an index.
    near = ((pool.beside >= 0) & (question.has & short).take(pool.beside, axis=1)).any(axis=1)
    return near & ~question.has & fits & counts[:, None]


def _is_of_every_message(word: str, names: Collection[str]) -> bool:
    return word in names or word in _MONTHS or word.isdigit()


def _compare_meaning(question: Question, candidates: Flags, measures: Flags) -> Floats:
    """The nearness of each candidate in meaning, from 0 to 1: its cosine as a share of the largest of those that are a
    measure, or (squeezed) of the range of all of them."""
    if question.cosines is None:
        return np.zeros(question.has.shape[1])
    known = candidates & ~np.isnan(question.cosines)
    if (known & measures).any():
        measured = known & measures
    else:
        measured = known
    if not known.any():
        return np.zeros(len(known))
    if question.squeezed:
        lowest = float(question.cosines[known].min())
    else:
        lowest = 0.0
    highest = float(question.cosines[measured].max())
    # All rows are equally near: at the top of a squeezed range, else at zero.
    if highest - lowest < _NO_DIFFERENCE:
        return np.where(known, float(question.squeezed), 0.0)
    # Less than a difference is no meaning, whatever the scale: another row that comes near must not bring this one in.
    near = known & (question.cosines - lowest >= _NO_DIFFERENCE)
    return np.where(near, np.clip((question.cosines - lowest) / (highest - lowest), 0.0, 1.0), 0.0)


def _find_named_speaker(pool: Pool, words: Collection[str]) -> Flags:
    """The rows of the one speaker whom the query names, however the name is written; of none if it names several."""
    sought = set(words)
    folded = [tuple(split_words(name)) for name in pool.names]
    named = {name for name in folded if sought.intersection(name)}
    if len(named) != 1:
        return np.zeros(len(pool), np.bool_)
    return np.isin(pool.speakers, [number for number, name in enumerate(folded) if name in named])


def _best_in_group(groups: Ints, scores: Floats, counted: Flags) -> Floats:
    """For each row the best score that a counted one of its group has, at least 0."""
    highest = np.zeros(len(groups) + 1)
    np.maximum.at(highest, groups[counted], scores[counted])
    return highest[groups]


# The weight of an embedder whose cosines the weights were fitted with.
_FITTED_WITH = 0.5


@dataclass(frozen=True, slots=True)
class Ranking:
    """``order``: the row of each message's best chunk, best message first, with its score in ``scores``: the logarithm
    of how likely it is to hold the answer, beside the others. By row of the pool: what each signal adds to its score
    (``added``), ``recency`` as a factor; ``context_has``: the words that it owes to its context; ``coverage``: the
    share of the query's words that it has, by idf, those of its context in part; ``tells``: neither a short question
    nor an answer that says nothing."""

    order: Ints
    scores: Floats
    added: Mapping[str, Floats]
    recency: Floats
    context_has: Flags
    coverage: Floats
    tells: Flags


def compute_idf(rows_with_word: int, rows: int) -> float:
    """Inverse document frequency (BM25's, never negative), counted inside one scope."""
    return math.log(1 + (max(rows, rows_with_word) - rows_with_word + 0.5) / (rows_with_word + 0.5))


def compute_recency(ages_days: Floats, rules: RecallRules) -> Floats:
    """The recency factor of an entry: halved with every half-life, never below the floor. Messages have none."""
    return np.maximum(rules.recency_floor, 0.5 ** (np.maximum(ages_days, 0) / rules.half_life_days))


def compute_row_recency(pool: Pool, now: int, rules: RecallRules) -> Floats:
    """The recency factor of each row, 1 for messages; ``now`` in milliseconds."""
    if not pool.entries.any():
        return np.ones(len(pool))
    return np.where(pool.entries, compute_recency((now - pool.said_at) / DAY_MS, rules), 1.0)


def sum_weights(postings: Mapping[str, Ints], weights: Mapping[str, float]) -> tuple[Ints, Floats]:
    """Every row that has one of the words, ascending, and the summed weights of those that it has."""
    # In a fixed order, so that equal rows get equal sums to the last bit.
    listed = [(postings[word], weights[word]) for word in sorted(postings) if len(postings[word])]
    if not listed:
        return np.empty(0, np.int64), np.empty(0)
    row_ids = np.concatenate([rows for rows, _ in listed])
    weighed = np.repeat([weight for _, weight in listed], [len(rows) for rows, _ in listed])
    order = np.argsort(row_ids, kind="stable")
    row_ids = row_ids[order]
    starts = np.flatnonzero(np.concatenate(([True], row_ids[1:] != row_ids[:-1])))
    return row_ids[starts], np.add.reduceat(weighed[order], starts)


def pick_best(row_ids: Ints, scores: Floats, count: int) -> Ints:
    """The rows of the ``count`` highest scores, best first; of equal ones the newest (highest row id) first."""
    if 0 < count < len(scores):
        # Sorting takes a tenth of what finding the one place does, where many are equal.
        least = np.sort(scores)[-count]
        above, equal = np.flatnonzero(scores > least), np.flatnonzero(scores == least)
        left = count - len(above)
        if left < len(equal):
            # Thousands of rows that have the same words have equal scores.
            equal = equal[np.argpartition(row_ids[equal], -left)[-left:]]
        kept = np.concatenate([above, equal])
        row_ids, scores = row_ids[kept], scores[kept]
    return row_ids[np.lexsort((-row_ids, -scores))[:count]]


def rank_rows(
    pool: Pool, candidates: Flags, question: Question, rules: RecallRules, factors: Floats | None = None
) -> Ranking:
    """Rank the candidates that share a word or a meaning with the question, best first. ``factors``: one for each row.

    A row without a vector stands no lower than where words alone rank it: its meaning is not known yet. Ties go to the
    newest, then to the highest row id.
    """
    ranked = _rank(pool, candidates, question, rules, factors)
    if question.cosines is None:
        return ranked
    lacking = np.isnan(question.cosines)
    if not (candidates & lacking).any():
        return ranked
    by_words = _rank(pool, candidates, replace(question, cosines=None), rules, factors)
    return _lift_unembedded(pool, ranked, by_words.order, lacking)


def _lift_unembedded(pool: Pool, ranked: Ranking, by_words: Ints, lacking: Flags) -> Ranking:
    """The ranking with each message that lacks a vector at least as high as in the order ``by_words``."""
    rows, scores = ranked.order.tolist(), ranked.scores.tolist()
    messages = pool.messages[ranked.order].tolist()
    for rank, row in enumerate(by_words.tolist()):
        message = int(pool.messages[row])
        if not lacking[row] or message not in messages:
            continue
        at = messages.index(message)
        if at <= rank:
            continue
        for listed, value in ((rows, row), (messages, message), (scores, scores[rank])):
            del listed[at]
            listed.insert(rank, value)
    return replace(ranked, order=np.array(rows, np.int64), scores=np.array(scores, np.float64))


def _rank(pool: Pool, candidates: Flags, question: Question, rules: RecallRules, factors: Floats | None) -> Ranking:
    signals = measure_signals(pool, candidates, question, rules)
    if question.cosines is None:
        weights = WORDS_ALONE
    else:
        weights = WITH_VECTORS
    added = {name: weight * signals.by_name[name] for name, weight in weights.items()}
    if question.cosines is not None:
        added["semantic"] = added["semantic"] * (question.semantic_weight / _FITTED_WITH)
    score = sum(added.values(), np.zeros(len(pool)))
    if factors is None:
        factor = np.ones(len(pool))
    else:
        factor = factors
    # A recency below 1 would lift a negative score, so it applies to positive ones alone.
    total = np.where(score > 0, score * factor, score)
    # The answer to a stored question may be short: it ends no list by being far ahead of it.
    stands_in = signals.by_name["answered"] > 0
    others = signals.found & ~stands_in
    if others.any():
        total = np.where(stands_in, np.minimum(total, total[others].max()), total)
    order = _best_chunks(pool, total, np.flatnonzero(signals.found))
    return Ranking(order, total[order], added, factor, signals.context_has, signals.coverage, signals.tells)


def _best_chunks(pool: Pool, scores: Floats, rows: Ints) -> Ints:
    """The best row of each message (the first of equal ones), best message first."""
    by_message = rows[np.lexsort((pool.chunks[rows], -scores[rows], pool.messages[rows]))]
    numbers = pool.messages[by_message]
    if len(by_message):
        heads = by_message[np.concatenate(([True], numbers[1:] != numbers[:-1]))]
    else:
        heads = by_message
    return heads[np.lexsort((-pool.row_ids[heads], -pool.said_at[heads], -scores[heads]))]
