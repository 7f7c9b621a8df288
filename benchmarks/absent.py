"""Questions about what was never said: the questions of one conversation, asked of another one's store."""

import random
from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.conversations import Conversation
from benchmarks.metrics import mean
from benchmarks.tables import figure, table

QUESTIONS = 200
FLOORS = tuple(round(step * 0.05, 2) for step in range(13))
HEADER = ("floor", "absent answered nothing", "recall@10 kept", "recall@10 lost", "real answered nothing", "")
SURE_MARK = "<- below, marked as unsure"


@dataclass(frozen=True, slots=True)
class Answered:
    """How a question was answered with the floor off: how relevant the answer is, the score of its best hit (0 if it
    has none), and its recall@10 (0 for a question about what was never said)."""

    relevance: float
    recall: float = 0.0


def drawn(
    conversations: Sequence[Conversation],
    apart: Collection[str],
    *,
    most: int = QUESTIONS,
    seed: int = 0,
    stores: int | None = None,
) -> dict[str, list[str]]:
    """For each of the first ``stores`` conversations (None: all), by its id, questions of the others to ask of its store:
    ``most`` in all, none twice of the same store. None where there is but one conversation."""
    chance = random.Random(seed)
    pairs = [
        (asked.id, question.text)
        for asked in conversations[:stores]
        for other in conversations
        for question in other.questions
        if other is not asked and question.category not in apart
    ]
    # dict.fromkeys keeps the order, so the same seed draws the same questions.
    distinct = list(dict.fromkeys(pairs))
    found: dict[str, list[str]] = defaultdict(list)
    for conversation, question in chance.sample(distinct, min(most, len(distinct))):
        found[conversation].append(question)
    return found


def curve(real: Sequence[Answered], absent: Sequence[Answered], sure: float) -> list[dict[str, Any]]:
    """For each floor, shares of 1: what it would hold back, since an answer is held back whole when its relevance is below
    the floor. ``sure``: the relevance below which an answer is marked as unsure; it is among the floors."""
    floors = list(FLOORS)
    if sure not in floors:
        insort(floors, sure)
    best = mean(each.recall for each in real)
    found = []
    for floor in floors:
        kept = mean(each.recall * (each.relevance >= floor) for each in real)
        found.append(
            {
                "floor": floor,
                "absent_nothing": mean(float(each.relevance < floor) for each in absent),
                "recall_kept": kept,
                "recall_lost": best - kept,
                "real_nothing": mean(float(each.relevance < floor) for each in real),
                "sure": floor == sure,
            }
        )
    return found


def shown(points: Sequence[dict[str, Any]], absent: int) -> str:
    """The curve as a table, in hundredths."""
    rows = [
        [
            f"{point['floor']:.2f}",
            f"{figure(point['absent_nothing'] * 100, 1)} %",
            *(figure(point[name] * 100, 1) for name in ("recall_kept", "recall_lost")),
            f"{figure(point['real_nothing'] * 100, 1)} %",
            SURE_MARK if point["sure"] else "",
        ]
        for point in points
    ]
    return f"{absent} questions about what was never said\n\n{table(HEADER, rows)}"
