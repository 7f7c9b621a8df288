"""The figures of a run: how many cases came out right, which share is expected, and the table that shows them."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.tables import figure, table, verdict

HEADER = ("part", "figure", "share", "cases", "expected", "verdict")


@dataclass(frozen=True, slots=True)
class Bound:
    """The smallest or the largest share that is expected."""

    share: float
    most: bool = False

    def __str__(self) -> str:
        return f"{'at most' if self.most else 'at least'} {self.share:.2f}"

    def holds(self, share: float) -> bool:
        return share <= self.share if self.most else share >= self.share


@dataclass(slots=True)
class Figure:
    """The share of a part's cases for which something is true. ``misses`` describes the cases that speak against it."""

    part: str
    name: str
    bound: Bound | None = None
    count: int = 0
    cases: int = 0
    misses: list[str] = field(default_factory=list)

    def add(self, is_true: bool, case: str) -> None:
        """Count a case. ``case`` says what it was, in case that it has to be looked at."""
        self.cases += 1
        self.count += is_true
        is_wanted = not is_true if self.bound is not None and self.bound.most else is_true
        if not is_wanted:
            self.misses.append(case)

    @property
    def share(self) -> float:
        return self.count / self.cases if self.cases else math.nan

    @property
    def holds(self) -> bool | None:
        """Whether the share is as expected; None if nothing is expected or nothing was counted."""
        return None if self.bound is None or not self.cases else self.bound.holds(self.share)

    def row(self) -> tuple[str, ...]:
        expected = "-" if self.bound is None else str(self.bound)
        return (
            self.part,
            self.name,
            figure(self.share, 3),
            f"{self.count} of {self.cases}",
            expected,
            verdict(self.holds),
        )


def summary(figures: Sequence[Figure]) -> str:
    """All figures as one Markdown table."""
    return table(HEADER, [each.row() for each in figures])


def missed(figures: Sequence[Figure]) -> list[Figure]:
    """The figures that are not as expected."""
    return [each for each in figures if each.holds is False]


def as_json(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Every figure with its share, its bound and its verdict."""
    written = []
    for each in figures:
        plain = asdict(each)
        plain["bound"] = None if each.bound is None else str(each.bound)
        written.append({**plain, "share": each.share, "verdict": verdict(each.holds)})
    return written
