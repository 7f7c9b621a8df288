"""Ranks rows by the words they share with a query. Pure functions: no clock, no database, no order of input."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row, its score in (0, 1] relative to the best, and which of the query's words it has."""

    row_id: int
    score: float
    words: tuple[str, ...]


def idf(rows_with_word: int, rows: int) -> float:
    """Inverse document frequency (BM25's, never negative), counted inside one scope."""
    return math.log(1 + (max(rows, rows_with_word) - rows_with_word + 0.5) / (rows_with_word + 0.5))


def lexical(postings: Mapping[str, Sequence[int]], rows: int) -> list[Ranked]:
    """Rows by the sum of the idf of the words they have, best first; equal ones newest (highest row id) first.

    ``postings`` gives for each word of the query the rows that have it; ``rows`` is how many the scope has.
    Summed idf without length normalisation measured level with BM25 inside a hybrid, and better than it alone.
    """
    scores: dict[int, float] = {}
    matched: dict[int, list[str]] = {}
    for word in sorted(postings):
        weight = idf(len(postings[word]), rows)
        for row_id in postings[word]:
            scores[row_id] = scores.get(row_id, 0.0) + weight
            matched.setdefault(row_id, []).append(word)
    best = max(scores.values(), default=0.0)
    ranked = [Ranked(row_id, score / best, tuple(matched[row_id])) for row_id, score in scores.items()]
    return sorted(ranked, key=lambda hit: (-hit.score, -hit.row_id))


def merged(rankings: Sequence[Sequence[Ranked]]) -> list[Ranked]:
    """Several queries' rankings as one: a row counts with its best score."""
    best: dict[int, Ranked] = {}
    for ranking in rankings:
        for hit in ranking:
            known = best.get(hit.row_id)
            if known is None or (hit.score, hit.words) > (known.score, known.words):
                best[hit.row_id] = hit
    return sorted(best.values(), key=lambda hit: (-hit.score, -hit.row_id))
