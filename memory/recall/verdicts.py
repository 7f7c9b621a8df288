"""The verdict on a query's answer: how its candidates rank, how relevant they are, and how sure it is that they are about the
query. Pure functions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from layerlore.memory.embedding.relevance import ANY_EMBEDDER, LEADERS, LEXICAL, Calibration, RelevanceEvidence
from layerlore.memory.recall.candidates import GatheredCandidates, VectorSpace
from layerlore.memory.recall.ranking import Ranking, compute_row_recency, rank_rows
from layerlore.memory.recall.recall_answers import Confidence
from layerlore.memory.settings.recall import RecallRules

# If the best hit that passes the filters is this far behind the best of all, it counts as unsure.
_FAR_BEHIND = 0.02
# Without a common word, an answer of at least this relevance is near enough in meaning to be shown. Of 556 right answers to
# questions in another language, each in a store of some 60 facts, none was below it (the questions of
# benchmarks.multilingual). In a store of fewer than 12 rows it is less: there a few lines too many cost little.
_NEAR_IN_MEANING = 0.005
_SMALL_STORE = 12


@dataclass(frozen=True, slots=True)
class Verdict:
    """A query's ranking, whether vectors took part in it, how relevant it is, and how sure it is that this is about
    the query, from what ``evidence``. ``held_back``: a floor keeps the whole answer back."""

    ranked: Ranking
    embedded: bool
    relevance: float
    confidence: Confidence
    evidence: RelevanceEvidence
    held_back: bool = False


@dataclass(frozen=True, slots=True)
class Winner:
    """A row of the pool that is a hit: its score from 0 to 1, of which query, and its ranking score there."""

    row: int
    score: float
    query: int
    ranking: float


def judge(
    gathered: GatheredCandidates,
    number: int,
    space: VectorSpace | None,
    rules: RecallRules,
    *,
    now: int,
    floor: float | None = None,
) -> Verdict:
    """Rank the candidates of the query with this number; ``now`` (milliseconds) is compared with the dates of
    entries. ``floor``, if given, takes the place of the operator's.

    The answer is ``nothing`` if no word of the query occurs and nothing is near in meaning, or if it is below the floor.
    """
    question = gathered.questions[number]
    factors = compute_row_recency(gathered.pool, now, rules)
    ranked = rank_rows(gathered.pool, gathered.candidates[number], question, rules, factors)
    leaders = ranked.order[ranked.tells[ranked.order]][:LEADERS]
    cosines = np.zeros(0) if question.cosines is None else question.cosines[leaders]
    evidence = replace(
        gathered.evidence[number],
        coverage=float(ranked.coverage[leaders].max(initial=0.0)),
        cosine=float(cosines[~np.isnan(cosines)].max(initial=0.0)),
    )
    embedded = question.cosines is not None and bool((~np.isnan(question.cosines)).any())
    calibration, sure = _choose_calibration(space if embedded else None, gathered.unembedded, rules)
    relevance = calibration.relevance(evidence)
    passing = np.flatnonzero(gathered.passing[ranked.order])
    if not len(passing) or not _is_about(ranked, calibration, relevance, evidence.rows):
        return Verdict(ranked, embedded, relevance, "nothing", evidence)
    least = rules.floor if floor is None else floor
    if relevance < least:
        return Verdict(ranked, embedded, relevance, "nothing", evidence, held_back=True)
    share = math.exp(float(ranked.scores[passing[0]] - ranked.scores[0]))
    confidence: Confidence = "sure" if relevance >= sure and share >= _FAR_BEHIND else "unsure"
    return Verdict(ranked, embedded, relevance, confidence, evidence)


def _is_about(ranked: Ranking, calibration: Calibration, relevance: float, rows: int) -> bool:
    """Whether a hit shares a word with the query, or one is near to it in meaning. What is near is not known for a model
    without a calibration, or while vectors are missing: then every hit counts."""
    shares_word = bool((ranked.coverage[ranked.order] > 0).any())
    least = _NEAR_IN_MEANING * min(1.0, rows / _SMALL_STORE) ** 2
    return shares_word or calibration is ANY_EMBEDDER or relevance >= least


def _choose_calibration(space: VectorSpace | None, unembedded: bool, rules: RecallRules) -> tuple[Calibration, float]:
    """The calibration that applies, and the relevance from which on an answer is sure. While vectors are missing, a
    small cosine means nothing: then words may speak alone."""
    if space is None or space.calibration is None or unembedded:
        return (LEXICAL if space is None else ANY_EMBEDDER), rules.lexical_sure
    return space.calibration, rules.sure


def pick_winners(
    gathered: GatheredCandidates, verdicts: Sequence[Verdict], limit: int, min_score: float | None = None
) -> tuple[list[Winner], int]:
    """The hits, best first, each message once with its best score; and how many more there would be without a floor.

    A score is the query's relevance times how likely the row is to hold the answer, beside the best. Ties go to the
    newest message.
    """
    pool = gathered.pool
    best: dict[int, Winner] = {}
    seen: set[int] = set()
    for number, verdict in enumerate(verdicts):
        if verdict.confidence == "nothing" and not verdict.held_back:
            continue
        ranked = verdict.ranked
        places = np.flatnonzero(gathered.passing[ranked.order])[:limit]
        for row, ranking in zip(ranked.order[places].tolist(), ranked.scores[places].tolist(), strict=True):
            message, share = int(pool.messages[row]), math.exp(ranking - float(ranked.scores[0]))
            seen.add(message)
            winner = Winner(row, verdict.relevance * share, number, ranking)
            if verdict.held_back or winner.score < (min_score or 0.0):
                continue
            if message not in best or winner.score > best[message].score:
                best[message] = winner
    ordered = sorted(
        best.values(), key=lambda winner: (-winner.score, -pool.said_at[winner.row], -pool.row_ids[winner.row])
    )
    winners = ordered[:limit]
    return winners, min(limit, len(seen)) - len(winners)
