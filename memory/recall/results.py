"""The result of a recall, and how the results of a project and of its person become one answer, best first."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from layerlore.memory.embedding.relevance import ANY_EMBEDDER, LEADERS, LEXICAL, Calibration, RelevanceEvidence
from layerlore.memory.recall.candidates import GatheredCandidates, VectorSpace
from layerlore.memory.recall.hit_lines import MessageTexts, is_note
from layerlore.memory.recall.ranking import Floats, Ranking, compute_row_recency, rank_rows
from layerlore.memory.recall.recall_answers import Confidence, Signal
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.storage.core.records import Message, Whose
from layerlore.storage.derived.entries import PLACE

# A hit of the person's memory comes after a hit of the project's that is about as relevant.
_FARTHER = 0.9


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The parts of a hit's score, which is the relevance of the query with this number times how likely the hit is
    beside the best one, e to the power of the difference of their ranking scores. A ranking score is ``recency`` times
    the sum of what each signal ``added``; ``cosine`` is None where the message has no vector yet, or none serve."""

    query: int
    relevance: float
    ranking: float
    added: Mapping[str, float]
    cosine: float | None
    recency: float
    words: tuple[str, ...]
    context_words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranked result, its score from 0 to 1, its neighbours, and the number of the chunk that was found. ``explain``
    gives what made the score: most answers do not say. An entry or a note has the shape of a
    message here (``entries.as_message``, ``notes.as_messages``) and no neighbours."""

    message: Message
    score: float
    explain: Callable[[], ScoreParts]
    before: list[Message] = field(default_factory=list)
    after: list[Message] = field(default_factory=list)
    chunk: int = 0
    kept: MessageTexts | None = None

    @property
    def texts(self) -> MessageTexts:
        """The parts that depend on the message alone."""
        # A hit that got its owner's mark has another message, and other texts.
        if self.kept and self.kept.message is self.message:
            return self.kept
        return MessageTexts(self.message)

    @property
    def is_entry(self) -> bool:
        return self.message.thread_id.startswith(PLACE)

    @property
    def is_note(self) -> bool:
        return is_note(self.message)


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The hits, best first; the words that were searched for, and their weights; the signals that served, and which did
    not, and why; how many hits a floor held back; and how sure it is that the hits are about the query.

    ``newest_only``: nothing matches the query, and the hits are the newest messages of the place that it names, or, where
    meanings could not be compared, of all that is stored. ``silent``: the days that the query names, if nothing was said
    on any of them. ``is_empty``: nothing at all is stored in the scope."""

    hits: list[Hit]
    words: tuple[str, ...] = ()
    signals: tuple[Signal, ...] = ("lexical",)
    degraded: tuple[str, ...] = ()
    held_back: int = 0
    weights: Mapping[str, float] = field(default_factory=dict)
    confidence: Confidence = "sure"
    newest_only: bool = False
    silent: tuple[str, ...] = ()
    is_empty: bool = False


def find_confidence(found: Sequence[Confidence]) -> Confidence:
    """The best of all."""
    if "sure" in found:
        return "sure"
    if "unsure" in found:
        return "unsure"
    return "nothing"


def mark_hit(hit: Hit, whose: Whose) -> Hit:
    """The hit as one that says whose it is, with its neighbours."""
    before, after = mark_messages(hit.before, whose), mark_messages(hit.after, whose)
    marked = replace(hit.message, whose=whose)
    return replace(hit, message=marked, before=before, after=after, kept=MessageTexts(marked))


def mark_messages(messages: Sequence[Message], whose: Whose) -> list[Message]:
    """The messages, or entries, as ones that say whose they are."""
    return [replace(each, whose=whose) for each in messages]


def join_results(project: RecallResult, person: RecallResult, limit: int) -> RecallResult:
    """Both answers as one of at most ``limit`` hits: each says whose it is, and the project's come before the person's
    that are about as relevant."""
    ranked: list[tuple[float, Hit]] = []
    sides: list[tuple[RecallResult, Whose, float]] = [(project, "project", 1.0), (person, "you", _FARTHER)]
    for found, whose, weight in sides:
        ranked += [(weight * hit.score, mark_hit(hit, whose)) for hit in found.hits]
    ranked.sort(key=lambda each: -each[0])
    return RecallResult(
        [hit for _, hit in ranked[:limit]],
        words=project.words,
        # The longer list wins: it says that vectors served at least one of the two.
        signals=max(project.signals, person.signals, key=len),
        degraded=tuple(dict.fromkeys((*project.degraded, *person.degraded))),
        held_back=project.held_back + person.held_back,
        weights={**person.weights, **project.weights},
        confidence=find_confidence((project.confidence, person.confidence)),
        newest_only=bool(ranked) and project.newest_only and person.newest_only,
        silent=project.silent if person.silent else (),
        is_empty=project.is_empty and person.is_empty,
    )


# If the best hit that passes the filters is this far behind the best of all, it counts as unsure.
_FAR_BEHIND = 0.02
# Without a common word, an answer of at least this relevance is near enough in meaning to be shown. None of 556 right
# answers to questions in another language, each in a store of some 60 facts, was below it (the questions of
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
    if question.cosines is None:
        cosines = np.zeros(0)
    else:
        cosines = question.cosines[leaders]
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
    if floor is None:
        least = rules.floor
    else:
        least = floor
    if relevance < least:
        return Verdict(ranked, embedded, relevance, "nothing", evidence, held_back=True)
    # Ranking scores are logarithms, so their difference is a ratio of likelihoods.
    share = math.exp(float(ranked.scores[passing[0]] - ranked.scores[0]))
    confidence: Confidence
    if relevance >= sure and share >= _FAR_BEHIND:
        confidence = "sure"
    else:
        confidence = "unsure"
    return Verdict(ranked, embedded, relevance, confidence, evidence)


def _is_about(ranked: Ranking, calibration: Calibration, relevance: float, rows: int) -> bool:
    """Whether a hit shares a word with the query, or one is near to it in meaning. Nearness is unknown for a model
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


# Several queries are joined by their ranks (reciprocal rank fusion, Cormack et al. 2009, with a small constant) and by this
# power of the likelihoods. Measured with ten kinds of wordings of the questions of three sets of conversations: mean
# recall@10 is 0.660; with the best score of any wording 0.638, with the ranks alone 0.657. Beside two other questions it is
# 0.601, and with the ranks alone 0.560.
_FUSION = 3
_EVENED = 0.25


def pick_winners(
    gathered: GatheredCandidates, verdicts: Sequence[Verdict], limit: int, min_score: float | None = None
) -> tuple[list[Winner], int]:
    """The hits, best first, each message once; and how many more there would be without a floor.

    A score is the query's relevance times how likely the row is to hold the answer, beside the best. Of several queries,
    the places in each add up, weighed by its relevance: one that fits nothing pushes nothing out, and a message that several
    find comes first. The best message then has the relevance of the best query. Ties go to the newest message.
    """
    pool = gathered.pool
    count = int(pool.messages.max(initial=-1)) + 1
    parts = np.zeros((len(verdicts), count))
    rows = np.zeros((len(verdicts), count), np.int64)
    rankings = np.zeros((len(verdicts), count))
    seen: set[int] = set()
    for number, verdict in enumerate(verdicts):
        order = verdict.ranked.order
        if verdict.confidence != "nothing" or verdict.held_back:
            seen.update(pool.messages[order[gathered.passing[order]]].tolist())
        if verdict.confidence != "nothing":
            of_message = pool.messages[order]
            parts[number, of_message] = verdict.relevance * _share(verdict.ranked, alone=len(verdicts) == 1)
            rows[number, of_message] = order
            rankings[number, of_message] = verdict.ranked.scores
    totals = parts.sum(axis=0)
    best = totals.max(initial=0.0)
    relevance = max((each.relevance for each in verdicts if each.confidence != "nothing"), default=0.0)
    messages = np.flatnonzero(totals)
    queries = parts[:, messages].argmax(axis=0)
    of_message = rows[queries, messages]
    scores = relevance * (totals[messages] / best)
    # In ascending order of these keys, of which the last counts first.
    order = np.lexsort((-pool.row_ids[of_message], -pool.said_at[of_message], -scores))
    order = order[gathered.passing[of_message[order]] & (scores[order] >= (min_score or 0.0))][:limit]
    winners = [
        Winner(int(of_message[at]), float(scores[at]), int(queries[at]), float(rankings[queries[at], messages[at]]))
        for at in order.tolist()
    ]
    # No more than ``limit`` would have been shown, so no more count as held back.
    return winners, min(limit, len(seen)) - len(winners)


def _share(ranked: Ranking, *, alone: bool) -> Floats:
    """How much each message in the order counts beside the first: by its likelihood, and beside other queries mostly by its
    rank."""
    # Ranking scores are logarithms, so their difference is a ratio of likelihoods.
    likelihood = np.exp(ranked.scores - ranked.scores[:1])
    if alone:
        return likelihood
    # Many rows have the one word of a short wording: equal scores have the rank in the middle of theirs.
    first, behind = (np.searchsorted(-ranked.scores, -ranked.scores, side) for side in ("left", "right"))
    return likelihood**_EVENED * (_FUSION + 1) / (_FUSION + 1 + (first + behind - 1) / 2)
