"""How well questions were answered, by each system and category, as figures and as one table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.conversations import Question
from benchmarks.metrics import mean, ndcg_at, recall_at, reciprocal_rank
from benchmarks.tables import figure, table

DEPTHS = (1, 5, 10, 20)
NDCG_DEPTH = 10
HEADER = ("category", "system", "questions", *(f"recall@{k}" for k in DEPTHS), f"nDCG@{NDCG_DEPTH}", "MRR")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one system answered one question: scores 0 to 1 of its first results (message ids, best first)."""

    category: str
    recall: dict[int, float]
    ndcg: float
    reciprocal_rank: float


def outcome(question: Question, found: Sequence[str]) -> Outcome:
    """Only the first ``max(DEPTHS)`` results count."""
    first = list(found)[: max(DEPTHS)]
    return Outcome(
        question.category,
        {k: recall_at(k, first, question.evidence) for k in DEPTHS},
        ndcg_at(NDCG_DEPTH, first, question.evidence),
        reciprocal_rank(first, question.evidence),
    )


def scores(outcomes: Collection[Outcome]) -> dict[str, float]:
    """Means, by the names of HEADER."""
    return {
        "questions": len(outcomes),
        **{f"recall@{k}": mean(each.recall[k] for each in outcomes) for k in DEPTHS},
        f"nDCG@{NDCG_DEPTH}": mean(each.ndcg for each in outcomes),
        "MRR": mean(each.reciprocal_rank for each in outcomes),
    }


def by_category(outcomes: Sequence[Outcome], apart: Collection[str]) -> dict[str, Any]:
    """The scores of each category, of those apart, and overall, which is without those apart."""
    kinds = {
        name: [each for each in outcomes if each.category == name]
        for name in sorted({each.category for each in outcomes})
    }
    return {
        "overall": scores([each for each in outcomes if each.category not in apart]),
        "categories": {name: scores(kind) for name, kind in kinds.items() if name not in apart},
        "apart": {name: scores(kind) for name, kind in kinds.items() if name in apart},
    }


def shown(systems: Mapping[str, dict[str, Any]]) -> str:
    """One table of what ``by_category`` gave for each system: the systems of a category below one another."""
    first = next(iter(systems.values()))
    rows: list[list[str]] = []
    for name in first["categories"]:
        rows += [_row(name, system, figures["categories"][name]) for system, figures in systems.items()]
    rows += [_row("overall", system, figures["overall"]) for system, figures in systems.items()]
    for name in first["apart"]:
        label = f"{name} (adversarial, reported apart)"
        rows += [_row(label, system, figures["apart"][name]) for system, figures in systems.items()]
    return table(HEADER, rows)


def _row(category: str, system: str, found: dict[str, float]) -> list[str]:
    return [category, system, f"{found['questions']:,}", *(figure(value, 3) for value in list(found.values())[1:])]
