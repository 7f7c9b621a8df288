"""What is computed from measurements. Pure functions."""

import math
from collections.abc import Collection, Iterable, Sequence


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of the values lie, interpolated between its neighbours; NaN of none."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Iterable[float]) -> float:
    return percentile(values, 0.5)


def mean(values: Iterable[float]) -> float:
    """NaN of none."""
    kept = list(values)
    return sum(kept) / len(kept) if kept else math.nan


def recall_at(k: int, found: Sequence[str], evidence: Collection[str]) -> float:
    """The share of the evidence that is among the first ``k`` distinct results. ``evidence`` must not be empty."""
    wanted = set(evidence)
    return len(wanted.intersection(_distinct(found)[:k])) / len(wanted)


def reciprocal_rank(found: Sequence[str], evidence: Collection[str]) -> float:
    """One divided by the rank of the first distinct result that is evidence; 0 where none is."""
    ranks = (rank for rank, result in enumerate(_distinct(found), 1) if result in evidence)
    # Without any evidence the rank is infinite, and its reciprocal 0.
    return 1 / next(ranks, math.inf)


def ndcg_at(k: int, found: Sequence[str], evidence: Collection[str]) -> float:
    """Normalised discounted cumulative gain of the first ``k`` distinct results, each evidence worth the same: 1 where
    as much evidence as fits stands first. ``evidence`` must not be empty."""
    gained = sum(1 / math.log2(rank + 1) for rank, result in enumerate(_distinct(found)[:k], 1) if result in evidence)
    return gained / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(set(evidence))) + 1))


def _distinct(found: Sequence[str]) -> list[str]:
    # A message counts once, however many of its chunks are found.
    return list(dict.fromkeys(found))
