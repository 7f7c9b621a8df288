"""The figures of a run: how many cases came out right, which share is expected, and the table that shows them."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.tables import figure, table, verdict

HEADER = ("part", "figure", "share", "cases", "expected", "verdict")


@dataclass(slots=True)
class Figure:
    """The share of a part's cases for which something is true.

    ``expected`` is the smallest share that holds, or the largest one of what is ``unwanted``. ``misses`` describes the
    cases that came out wrong. ``spare`` is how many more of them a small sample may have, unless none may be wrong.
    """

    part: str
    name: str
    expected: float | None = None
    unwanted: bool = False
    count: int = 0
    cases: int = 0
    spare: int = 0
    misses: list[str] = field(default_factory=list)

    def add(self, is_true: bool, case: str) -> None:
        """Count a case. ``case`` describes it in the list of misses."""
        self.cases += 1
        self.count += is_true
        if is_true == self.unwanted:
            self.misses.append(case)

    @property
    def share(self) -> float:
        return self.count / self.cases if self.cases else math.nan

    @property
    def holds(self) -> bool | None:
        """Whether the share is as expected; None if nothing is expected or nothing was counted."""
        if self.expected is None or not self.cases:
            return None
        spare = self.spare if 0 < self.expected < 1 else 0
        if self.unwanted:
            return (self.count - spare) / self.cases <= self.expected
        return (self.count + spare) / self.cases >= self.expected

    @property
    def bound(self) -> str:
        """The expected share in words, or a dash."""
        if self.expected is None:
            return "-"
        return f"{'at most' if self.unwanted else 'at least'} {self.expected:.2f}"

    def row(self) -> tuple[str, ...]:
        """The cells of the figure's line in the table."""
        counted = f"{self.count} of {self.cases}"
        return (self.part, self.name, figure(self.share, 3), counted, self.bound, verdict(self.holds))


def summary(figures: Sequence[Figure]) -> str:
    """All figures as one Markdown table."""
    return table(HEADER, [each.row() for each in figures])


def missed(figures: Sequence[Figure]) -> list[Figure]:
    """The figures that are not as expected."""
    return [each for each in figures if each.holds is False]


def as_json(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Every figure with its share, its bound and its verdict."""
    return [
        {**asdict(each), "bound": each.bound, "share": each.share, "verdict": verdict(each.holds)} for each in figures
    ]
