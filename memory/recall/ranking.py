"""The ranking of messages by what they have to do with a question (``signals``), each signal with its weight
(``weights``). Pure functions: no clock, no database, and no order of input matters.

The ranking was measured against BM25 and reciprocal rank fusion, see ``docs/decisions.md``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from layerlore.memory.recall.pool import Flags, Floats, Ints, Pool
from layerlore.memory.recall.signals import Question, measure_signals
from layerlore.memory.recall.weights import WITH_VECTORS, WORDS_ALONE
from layerlore.memory.rules.ages import DAY_MS
from layerlore.memory.settings.recall import RecallRules

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

    A row without a vector stands no lower than where words alone rank it: its meaning is not known yet. Ties go to what
    was said last, then to the highest row id.
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
    weights = WORDS_ALONE if question.cosines is None else WITH_VECTORS
    added = {name: weight * signals.by_name[name] for name, weight in weights.items()}
    if question.cosines is not None:
        added["semantic"] = added["semantic"] * (question.semantic_weight / _FITTED_WITH)
    score = sum(added.values(), np.zeros(len(pool)))
    factor = np.ones(len(pool)) if factors is None else factors
    total = np.where(score > 0, score * factor, score)
    # What answered a stored question may say little: it ends no list by being far ahead of it.
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
    heads = by_message[np.concatenate(([True], numbers[1:] != numbers[:-1]))] if len(by_message) else by_message
    return heads[np.lexsort((-pool.row_ids[heads], -pool.said_at[heads], -scores[heads]))]
