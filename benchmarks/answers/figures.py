"""The figures of cases: shares with intervals, the agreement of two judges, tables, and a plot in text."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.answers.cases import FALSE_PREMISE, KINDS, Case
from benchmarks.metrics import mean
from benchmarks.tables import figure, table

RESAMPLES = 1_000
_PLOT_ROWS = 11
_PLOT_COLUMNS = 61
_PLOT_FROM, _PLOT_TO = 10, 10_000
_MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean, by drawing the questions anew with a fixed seed."""
    if not values:
        return math.nan, math.nan
    drawn = np.random.default_rng(0).choice(np.asarray(values, dtype=float), (RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def agreement(cases: Sequence[Case]) -> tuple[float, float]:
    """How often the first two judges agree, and Cohen's kappa: the part of the agreement that is not chance. Kappa is NaN
    where chance alone makes them agree always."""
    raw = mean(float(case.verdicts[0] == case.verdicts[1]) for case in cases)
    first = mean(float(case.verdicts[0]) for case in cases)
    second = mean(float(case.verdicts[1]) for case in cases)
    chance = first * second + (1 - first) * (1 - second)
    return raw, math.nan if chance == 1 else (raw - chance) / (1 - chance)


def answer_report(cases: Sequence[Case]) -> str:
    """Tables of right answers, the plot, and the agreement of the judges."""
    sets = _distinct(case.set for case in cases)
    shown = _distinct(case.shown for case in cases)
    rows = []
    for way in shown:
        rows.append([way, *(_right(_those(cases, name, way)) for name in sets)])
    parts = [
        table(["right answers [95 % interval] (tokens shown)", *sets], rows),
        _by_kind("right answers by kind", cases),
        _plot(cases),
    ]
    spent = sum(case.reader_tokens for case in cases)
    if spent:
        parts.append(f"The reader's provider counted {spent:,} tokens.")
    if len(cases[0].verdicts) > 1:
        raw, kappa = agreement(cases)
        parts.append(f"The first two judges agree on {100 * raw:.1f} %; Cohen's kappa is {figure(kappa, 2)}.")
    return "\n\n".join(parts)


def evidence_report(cases: Sequence[Case]) -> str:
    """For each set, way of showing and kind of question: the gold turns that are shown, and whether in time order."""
    rows = []
    gold = [case for case in cases if case.found is not None]
    for name in _distinct(case.set for case in gold):
        for way in _distinct(case.shown for case in gold):
            those = _those(gold, name, way)
            rows.append(_evidence_row(name, way, "all", [case for case in those if case.kind != FALSE_PREMISE]))
            for kind in KINDS:
                rows.append(_evidence_row(name, way, kind, [case for case in those if case.kind == kind]))
    header = ["set", "shown", "kind", "questions", "tokens", "share shown", "all shown", "all, in time order"]
    return table(header, [row for row in rows if row[3] != "0"])


def _evidence_row(name: str, way: str, kind: str, cases: Sequence[Case]) -> list[str]:
    return [
        name,
        way,
        kind,
        f"{len(cases):,}",
        figure(mean(case.tokens for case in cases), 0),
        figure(mean(case.found or 0 for case in cases), 3),
        figure(mean(float(bool(case.all_found)) for case in cases), 3),
        figure(mean(float(bool(case.in_order)) for case in cases), 3),
    ]


def _right(cases: Sequence[Case]) -> str:
    if not cases:
        return "-"
    values = [case.right for case in cases]
    low, high = interval(values)
    tokens = mean(case.tokens for case in cases)
    return f"{mean(values):.3f} [{low:.3f}, {high:.3f}] ({tokens:,.0f})"


def _by_kind(title: str, cases: Sequence[Case]) -> str:
    rows = []
    for name in _distinct(case.set for case in cases):
        for way in _distinct(case.shown for case in cases):
            row = [name, way]
            for kind in KINDS:
                values = [case.right for case in _those(cases, name, way) if case.kind == kind]
                row.append(f"{mean(values):.3f} of {len(values):,}" if values else "-")
            rows.append(row)
    return table([title, "shown", *KINDS], rows)


def _plot(cases: Sequence[Case]) -> str:
    """Right answers from 0 to 1 upwards, tokens shown on a scale of logarithms to the right; a letter for each point, "+" for several."""
    grid = [[" "] * _PLOT_COLUMNS for _ in range(_PLOT_ROWS)]
    legend = []
    points = []
    for name in _distinct(case.set for case in cases):
        for way in _distinct(case.shown for case in cases):
            points.append((name, way, _those(cases, name, way)))
    for number, (name, way, those) in enumerate(point for point in points if point[2]):
        mark = _MARKS[number % len(_MARKS)]
        right = mean(case.right for case in those)
        tokens = mean(case.tokens for case in those)
        row = round((1 - right) * (_PLOT_ROWS - 1))
        column = _column(tokens)
        # Two points in one place would hide each other.
        grid[row][column] = mark if grid[row][column] == " " else "+"
        legend.append(f"{mark}  {name}, {way}: {right:.3f} right, {tokens:,.0f} tokens")
    lines = [f"{1 - at / (_PLOT_ROWS - 1):.1f} |{''.join(row)}" for at, row in enumerate(grid)]
    scale = f"    +{'-' * _PLOT_COLUMNS}\n     10{'100':>20}{'1,000':>21}{'10,000':>19} tokens"
    return "\n".join(["```text", *lines, scale, "", *legend, "```"])


def _column(tokens: float) -> int:
    kept = min(max(tokens, _PLOT_FROM), _PLOT_TO)
    share = math.log(kept / _PLOT_FROM) / math.log(_PLOT_TO / _PLOT_FROM)
    return round(share * (_PLOT_COLUMNS - 1))


def _those(cases: Iterable[Case], name: str, shown: str) -> list[Case]:
    return [case for case in cases if case.set == name and case.shown == shown]


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
