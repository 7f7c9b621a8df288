"""Relevance: whether the hits answer the question at all, from 0 to 1, to be compared with the floor.

A ranking always has a best; on a topic that was never mentioned, it is noise. The evidence: how many of the query's
words the best hits have, how near they are in meaning, how much of the query never occurs, and how good the best of
this number of rows would be by chance alone. A calibration weighs these in logistic terms, of which the largest counts:
one for a question in the words that are remembered, one for a question in other words or in another language, whose
nearness in meaning is all there is.

The constants were fitted on five conversations each of LoCoMo, REALTALK and BEAM, whole and cut into stores of 15, 60
and 250 messages, with questions of other conversations as the absent ones; the terms for other words also on questions
in five languages about facts stated in English. ``benchmarks/README.md`` has the curve.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The number of hits that speak for a ranking.
LEADERS = 5
# Smaller stores than this were never measured.
_FEWEST_ROWS = 12


@dataclass(frozen=True, slots=True)
class RelevanceEvidence:
    """The evidence for a query's hits.

    ``coverage``: the largest share of the query's words, by weight, that one of the leaders has (words of its context
    count in part); ``cosine``: the largest of a leader; ``nearest``: the largest in the scope; ``standing``: by how
    many standard deviations that one stands out from the others near it; ``unknown``: the share of the query's words
    that no row has; ``unheard``: the same share by weight; ``rows``: how many rows could have been found.
    """

    coverage: float = 0.0
    cosine: float = 0.0
    nearest: float = 0.0
    standing: float = 0.0
    unknown: float = 0.0
    unheard: float = 0.0
    rows: int = 0

    @property
    def chance(self) -> float:
        """Roughly the largest of as many normal deviates as there are rows: the best row reaches that by chance."""
        return math.sqrt(2 * math.log(max(self.rows, _FEWEST_ROWS)))


@dataclass(frozen=True, slots=True)
class LogisticTerm:
    """The weights of one logistic term; ``foreign`` weighs the square of ``unknown``."""

    constant: float
    coverage: float = 0.0
    cosine: float = 0.0
    nearest: float = 0.0
    standing: float = 0.0
    unknown: float = 0.0
    unheard: float = 0.0
    foreign: float = 0.0
    chance: float = 0.0

    def value(self, evidence: RelevanceEvidence) -> float:
        """The value of the term, from 0 to 1."""
        return _logistic(
            self.constant
            + self.coverage * evidence.coverage
            + self.cosine * evidence.cosine
            + self.nearest * evidence.nearest
            + self.standing * evidence.standing
            + self.unknown * evidence.unknown
            + self.unheard * evidence.unheard
            + self.foreign * evidence.unknown**2
            + self.chance * evidence.chance
        )


@dataclass(frozen=True, slots=True)
class Calibration:
    """Terms, of which the largest counts."""

    terms: tuple[LogisticTerm, ...]

    def relevance(self, evidence: RelevanceEvidence) -> float:
        """The relevance that the evidence speaks for, from 0 (surely never mentioned) to 1."""
        return max(term.value(evidence) for term in self.terms)


_WORDS = LogisticTerm(9.01, coverage=3.59, unknown=-7.84, chance=-2.52)

# Without vectors: words alone.
LEXICAL = Calibration((_WORDS,))

# With vectors of a model that has no fitted constants. The worth of its cosines is unknown, so the words decide as
# they do alone, or that the nearest row stands out from the others: that has no unit.
ANY_EMBEDDER = Calibration((_WORDS, LogisticTerm(-0.5, standing=1.87, foreign=3.18, chance=-3.34)))

USE_MULTILINGUAL = Calibration(
    (
        LogisticTerm(5.22, coverage=4.22, cosine=6.88, unknown=-15.16, unheard=7.62, chance=-2.54),
        LogisticTerm(-4.89, nearest=14.94, standing=1.01, foreign=4.24, chance=-2.75),
    )
)
MINILM_ENGLISH = Calibration(
    (
        LogisticTerm(4.30, coverage=4.26, cosine=9.69, unknown=-14.99, unheard=7.86, chance=-2.65),
        LogisticTerm(-3.84, nearest=17.22, standing=1.45, foreign=2.66, chance=-3.99),
    )
)


def measure_standing(cosines: NDArray[np.float64]) -> float:
    """By how many standard deviations the largest stands out; 0 of fewer than two, or of equal ones."""
    if len(cosines) > 1:
        spread = float(cosines.std())
    else:
        spread = 0.0
    if spread > 1e-6:
        return float(cosines.max() - cosines.mean()) / spread
    return 0.0


def measure_unknown(rows_with_word: Sequence[int], weights: Sequence[float]) -> tuple[float, float]:
    """The share of words that no row has, by number and by weight; 0 without words."""
    if not rows_with_word:
        return 0.0, 0.0
    unknown = [not count for count in rows_with_word]
    heavy = sum(weight for weight, is_unknown in zip(weights, unknown, strict=True) if is_unknown)
    return sum(unknown) / len(unknown), heavy / (sum(weights) or 1.0)


def _logistic(value: float) -> float:
    # exp overflows far beyond these bounds, where the result is 0 or 1 anyway.
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, value))))
