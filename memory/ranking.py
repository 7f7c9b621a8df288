"""Ranks rows by the words they share with a query. Pure functions: no clock, no database, no order of input."""

import heapq
import math
from collections.abc import Mapping, Sequence

# A row's id -> its score in (0, 1], relative to the best row.
Scores = dict[int, float]


def idf(rows_with_word: int, rows: int) -> float:
    """Inverse document frequency (BM25's, never negative), counted inside one scope."""
    return math.log(1 + (max(rows, rows_with_word) - rows_with_word + 0.5) / (rows_with_word + 0.5))


def lexical(postings: Mapping[str, Sequence[int]], rows: int) -> Scores:
    """Every row that has one of the words, scored by the sum of the idf of those that it has.

    ``postings`` gives for each word of the query the rows that have it; ``rows`` is how many the scope has.
    Summed idf without length normalisation measured level with BM25 inside a hybrid, and better than it alone.
    """
    scores: Scores = {}
    # In a fixed order, so that equal rows get equal sums to the last bit.
    for word in sorted(postings):
        weight = idf(len(postings[word]), rows)
        for row_id in postings[word]:
            scores[row_id] = scores.get(row_id, 0.0) + weight
    best = max(scores.values(), default=1.0)
    return {row_id: score / best for row_id, score in scores.items()}


def merged(each: Sequence[Scores]) -> Scores:
    """Several queries' scores as one: a row counts with its best."""
    if len(each) == 1:
        return each[0]
    best: Scores = {}
    for scores in each:
        for row_id, score in scores.items():
            if score > best.get(row_id, 0.0):
                best[row_id] = score
    return best


def best(scores: Scores, count: int) -> list[tuple[int, float]]:
    """The ``count`` best rows and their scores, best first; of equal ones the newest (highest row id) first."""
    top = heapq.nlargest(count, zip(scores.values(), scores.keys(), strict=True))
    return [(row_id, score) for score, row_id in top]
