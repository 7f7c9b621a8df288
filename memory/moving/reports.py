"""What became of what an import brought: counts by kind, and what was left out and why."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TypedDict

MOST_SKIPPED = 1_000
"""So many are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """One thing, or several of a kind after one another, that an import left out: where the first stands, and why."""

    kind: str
    where: str
    why: str
    count: int = 1


class ShownSkip(TypedDict):
    kind: str
    where: str
    why: str
    count: int


class ShownReport(TypedDict):
    """A report as a program reads it."""

    counts: dict[str, dict[str, int]]
    skipped: list[ShownSkip]
    skipped_count: int
    masked: int


@dataclass(slots=True)
class ImportReport:
    """By kind (``message``, ``entry`` and so on) what was added, was there already (``unchanged``), took the place of
    something (``replaced``) or was left out (``skipped``), and how many secrets were masked."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    skipped_count: int = 0
    masked: int = 0

    def add(self, kind: str, outcome: str, number: int = 1) -> None:
        if number:
            self.counts.setdefault(kind, Counter())[outcome] += number

    def skip(self, kind: str, where: str, why: str, number: int = 1) -> None:
        self.add(kind, "skipped", number)
        self.skipped_count += number
        last = self.skipped[-1] if self.skipped else None
        if last is not None and (last.kind, last.why) == (kind, why):
            self.skipped[-1] = replace(last, count=last.count + number)
        elif len(self.skipped) < MOST_SKIPPED:
            self.skipped.append(Skipped(kind, where, why, number))

    def count(self, kind: str) -> int:
        """How many of a kind were looked at."""
        return self.counts[kind].total() if kind in self.counts else 0

    def show(self) -> ShownReport:
        """The report as JSON."""
        skipped: list[ShownSkip] = []
        for each in self.skipped:
            skipped.append({"kind": each.kind, "where": each.where, "why": each.why, "count": each.count})
        return {
            "counts": {kind: dict(outcomes) for kind, outcomes in self.counts.items()},
            "skipped": skipped,
            "skipped_count": self.skipped_count,
            "masked": self.masked,
        }
