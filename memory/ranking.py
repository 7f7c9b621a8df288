"""Ranks messages by the words they share with a query, how near they are in meaning, who spoke, and what was said in
the same session. Pure functions: no clock, no database, and no order of input matters.

The formula was measured against BM25, reciprocal rank fusion, and its own parts left out, see ``docs/decisions.md``.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from layerlore.memory.ages import DAY_MS
from layerlore.memory.pool import Flags, Floats, Ints, Pool
from layerlore.memory.recall_rules import RecallRules
from layerlore.memory.search_text import words as words_of

# Cosines closer than this are equal.
_NO_DIFFERENCE = 1e-6

_MONTHS = frozenset(
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Question:
    """A query as the rows of a pool answer it. ``has``: for each word, which rows have it; ``weights``: its idf;
    ``cosines`` of the rows, NaN where one has no vector, or None where none serve. ``semantic_weight`` and ``squeezed``
    are the embedder's: cosines of some models fill only a part of their range, and only their order tells."""

    words: tuple[str, ...]
    weights: Floats
    has: Flags
    cosines: Floats | None = None
    semantic_weight: float = 0.5
    squeezed: bool = False


@dataclass(frozen=True, slots=True)
class Ranked:
    """``order``: the row of each message's best chunk, best message first, with its score in ``scores``. By row of the
    pool: what each part adds to its score, ``recency`` as a factor; ``context_has``: the words that it owes to its
    context; ``coverage``: the share of the query's words that it has, by idf, those of its context in part."""

    order: Ints
    scores: Floats
    lexical: Floats
    context: Floats
    semantic: Floats
    speaker: Floats
    role: Floats
    session: Floats
    recency: Floats
    context_has: Flags
    coverage: Floats


def idf(rows_with_word: int, rows: int) -> float:
    """Inverse document frequency (BM25's, never negative), counted inside one scope."""
    return math.log(1 + (max(rows, rows_with_word) - rows_with_word + 0.5) / (rows_with_word + 0.5))


def recency(ages_days: Floats, rules: RecallRules) -> Floats:
    """The factor of an entry: halved with every half-life, never below the floor. Messages have none."""
    return np.maximum(rules.recency_floor, 0.5 ** (np.maximum(ages_days, 0) / rules.half_life_days))


def recency_of(pool: Pool, now: int, rules: RecallRules) -> Floats:
    """The factor of each row; ``now`` in milliseconds."""
    return np.where(pool.entries, recency((now - pool.said_at) / DAY_MS, rules), 1.0)


def summed(postings: Mapping[str, Ints], weights: Mapping[str, float]) -> tuple[Ints, Floats]:
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


def best(row_ids: Ints, scores: Floats, count: int) -> Ints:
    """The rows of the ``count`` highest scores, best first; of equal ones the newest (highest row id) first."""
    if 0 < count < len(scores):
        kept = scores >= np.partition(scores, -count)[-count]
        row_ids, scores = row_ids[kept], scores[kept]
    return row_ids[np.lexsort((-row_ids, -scores))[:count]]


def rank(
    pool: Pool, candidates: Flags, question: Question, rules: RecallRules, factors: Floats | None = None
) -> Ranked:
    """The candidates for which a word or their meaning speaks, best first. ``factors``: one for each row.

    Ties go to what was said last, then to the highest row id.
    """
    context_has = _context(pool, question, rules)
    own, around = _weighed(question, question.has), rules.context_weight * _weighed(question, context_has)
    asked = float(question.weights.sum())
    reference = max(float((own + around)[candidates].max(initial=0.0)), rules.lexical_share * asked) or 1.0
    lexical, context = own / reference, around / reference
    semantic = question.semantic_weight * _semantic(question, candidates)
    speaker = np.where(_named(pool, question.words), rules.speaker_weight, 0.0)
    role = np.where((pool.by_user & pool.in_dialogue) | pool.entries, rules.user_weight, 0.0)
    score = lexical + context + semantic + speaker + role
    found = candidates & (lexical + context + semantic > 0)
    session = rules.session_weight * _best_of(pool.sessions, score, found)
    factor = np.ones(len(pool)) if factors is None else factors
    total = (score + session) * factor
    order = _best_chunks(pool, total, np.flatnonzero(found))
    coverage = (own + around) / (asked or 1.0)
    return Ranked(
        *(order, total[order], lexical, context, semantic, speaker, role, session, factor), context_has, coverage
    )


def _weighed(question: Question, has: Flags) -> Floats:
    """For each row the summed idf of its words, in a fixed order: equal rows get equal sums to the last bit."""
    total = np.zeros(has.shape[1])
    for at in np.argsort(np.array(question.words)):
        total += question.weights[at] * has[at]
    return total


def _context(pool: Pool, question: Question, rules: RecallRules) -> Flags:
    """Which words a short message lacks and a short message around it has. A speaker's name or a date stands beside
    every message: no context."""
    short = pool.chars <= rules.context_chars
    fits = short & ~pool.in_dialogue
    names = {word for name in pool.names for word in words_of(name)}
    found = np.zeros_like(question.has)
    for at, word in enumerate(question.words):
        if _of_every_message(word, names):
            continue
        has = question.has[at]
        near = np.zeros(len(pool), np.bool_)
        for beside in pool.beside:
            near |= (beside >= 0) & (has & short)[beside]
        found[at] = near & ~has & fits
    return found


def _of_every_message(word: str, names: Collection[str]) -> bool:
    return word in names or word in _MONTHS or word.isdigit()


def _semantic(question: Question, candidates: Flags) -> Floats:
    """From 0 to 1: each cosine as a share of the largest, or (squeezed) of the range of all of them."""
    if question.cosines is None:
        return np.zeros(question.has.shape[1])
    known = candidates & ~np.isnan(question.cosines)
    if not known.any():
        return np.zeros(len(known))
    lowest = float(question.cosines[known].min()) if question.squeezed else 0.0
    highest = float(question.cosines[known].max())
    if highest - lowest < _NO_DIFFERENCE:
        return np.where(known, float(question.squeezed), 0.0)
    return np.where(known, np.clip((question.cosines - lowest) / (highest - lowest), 0.0, 1.0), 0.0)


def _named(pool: Pool, words: Collection[str]) -> Flags:
    """The rows of the one speaker whom the query names, however the name is written; of none if it names several."""
    sought = set(words)
    folded = [tuple(words_of(name)) for name in pool.names]
    named = {name for name in folded if sought.intersection(name)}
    if len(named) != 1:
        return np.zeros(len(pool), np.bool_)
    return np.isin(pool.speakers, [number for number, name in enumerate(folded) if name in named])


def _best_of(groups: Ints, scores: Floats, counted: Flags) -> Floats:
    """For each row the best score that a counted one of its group has, at least 0."""
    highest = np.zeros(len(groups) + 1)
    np.maximum.at(highest, groups[counted], scores[counted])
    return highest[groups]


def _best_chunks(pool: Pool, scores: Floats, rows: Ints) -> Ints:
    """Of each message its best row (the first of equal ones), best message first."""
    by_message = rows[np.lexsort((pool.chunks[rows], -scores[rows], pool.messages[rows]))]
    numbers = pool.messages[by_message]
    heads = by_message[np.concatenate(([True], numbers[1:] != numbers[:-1]))] if len(by_message) else by_message
    return heads[np.lexsort((-pool.row_ids[heads], -pool.said_at[heads], -scores[heads]))]
