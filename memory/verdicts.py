"""From ranked candidates to hits: how relevant each query's are, what the floor holds back, several queries as one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from layerlore.memory.candidates import Gathered, Space
from layerlore.memory.ranking import Ranked, rank, recency_of
from layerlore.memory.recall_rules import RecallRules
from layerlore.memory.relevance import ANY_EMBEDDER, LEADERS, LEXICAL, Calibration


@dataclass(frozen=True, slots=True)
class Verdict:
    """A query's ranking, whether vectors took part in it, how relevant it is, and whether that is enough."""

    ranked: Ranked
    embedded: bool
    relevance: float
    passes: bool


@dataclass(frozen=True, slots=True)
class Winner:
    """A row of the pool that is a hit: its score from 0 to 1, of which query, and its ranking score there."""

    row: int
    score: float
    query: int
    ranking: float


def judged(gathered: Gathered, number: int, space: Space | None, rules: RecallRules, *, now: int) -> Verdict:
    """Rank the candidates of the query with this number; ``now`` (milliseconds) tells how old entries are."""
    question = gathered.questions[number]
    factors = recency_of(gathered.pool, now, rules)
    ranked = rank(gathered.pool, gathered.candidates[number], question, rules, factors)
    leaders = ranked.order[:LEADERS]
    cosines = np.zeros(0) if question.cosines is None else question.cosines[leaders]
    evidence = replace(
        gathered.evidence[number],
        coverage=float(ranked.coverage[leaders].max(initial=0.0)),
        cosine=float(cosines[~np.isnan(cosines)].max(initial=0.0)),
    )
    embedded = question.cosines is not None and bool((~np.isnan(question.cosines)).any())
    calibration, floor = _yardstick(space if embedded else None, gathered.unembedded, rules)
    relevance = calibration.relevance(evidence)
    return Verdict(ranked, embedded, relevance, relevance >= floor)


def _yardstick(space: Space | None, unembedded: bool, rules: RecallRules) -> tuple[Calibration, float]:
    """While vectors are missing, a small cosine means nothing: then words may speak alone."""
    if space is None:
        return LEXICAL, rules.lexical_floor
    if space.calibration is None or unembedded:
        return ANY_EMBEDDER, rules.lexical_floor
    return space.calibration, rules.floor


def winning(gathered: Gathered, verdicts: Sequence[Verdict], limit: int, tail: float) -> tuple[list[Winner], int]:
    """The hits, best first, each message once with its best score; and how many there would be without a floor.

    A score is the query's relevance times the share of the best ranking score. Ties go to what was said last.
    """
    pool = gathered.pool
    best: dict[int, Winner] = {}
    seen: set[int] = set()
    for number, verdict in enumerate(verdicts):
        ranked = verdict.ranked
        for row, ranking in zip(ranked.order[:limit].tolist(), ranked.scores[:limit].tolist(), strict=True):
            message, share = int(pool.messages[row]), ranking / float(ranked.scores[0])
            seen.add(message)
            winner = Winner(row, verdict.relevance * share, number, ranking)
            if verdict.passes and share >= tail and (message not in best or winner.score > best[message].score):
                best[message] = winner
    ordered = sorted(
        best.values(), key=lambda winner: (-winner.score, -pool.said_at[winner.row], -pool.row_ids[winner.row])
    )
    return ordered[:limit], min(limit, len(seen))
