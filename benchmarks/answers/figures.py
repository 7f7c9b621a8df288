"""The figures of cases: shares with intervals, the agreement of two judges, tables, and the lines of the plot."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.answers.cases import FALSE_PREMISE, KINDS, Case
from benchmarks.answers.contexts import BM25, GOLD
from benchmarks.chart import BLUE, GREEN, ORANGE, VIOLET, Line, Points
from benchmarks.hosting import CONTEXT, RECALL
from benchmarks.metrics import mean
from benchmarks.tables import figure, table

RESAMPLES = 1_000
FALSE_PREMISES = "false premises"
_COLOURS = {RECALL: BLUE, CONTEXT: ORANGE, BM25: GREEN, GOLD: VIOLET}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean, by drawing the questions anew with a fixed seed."""
    if not values:
        return math.nan, math.nan
    drawn = np.random.default_rng(0).choice(np.asarray(values, dtype=float), (RESAMPLES, len(values)))
    low, high = np.percentile(drawn.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def agreement(verdicts: Sequence[tuple[bool, bool]]) -> tuple[float, float]:
    """How often two judges agree, and Cohen's kappa: the part of the agreement that is not chance. Kappa is NaN where
    chance alone makes them agree always."""
    raw = mean(float(first == second) for first, second in verdicts)
    first = mean(float(first) for first, _ in verdicts)
    second = mean(float(second) for _, second in verdicts)
    chance = first * second + (1 - first) * (1 - second)
    return raw, math.nan if chance == 1 else (raw - chance) / (1 - chance)


def answer_report(cases: Sequence[Case]) -> str:
    """Tables of right answers, the agreement of the judges, what the calls cost, and which calls failed."""
    decided = [case for case in cases if case.decided]
    parts = [_right_answers(decided), _by_kind(decided), *_agreements(decided)]
    reading = sum(case.reader_tokens for case in cases)
    judging = sum(case.judge_tokens for case in cases)
    if reading or judging:
        parts.append(f"Tokens that the providers counted: {reading:,} for reading, {judging:,} for judging.")
    # A question without an answer in its set has no verdict, and no call failed for it.
    left_out = sum(case.decidable and not case.decided for case in cases)
    if left_out:
        parts.append(f"Cases that lack a reply or a verdict and are left out: {left_out:,}. --missing asks for them.")
    return "\n\n".join(parts)


def panels(cases: Sequence[Case]) -> dict[str, dict[Line, Points]]:
    """What is drawn for each set and for the false premises: right answers against the tokens shown."""
    found: dict[str, dict[Line, Points]] = {}
    for column, those in _columns([case for case in cases if case.decided]).items():
        found[column] = {}
        for system, colour in _COLOURS.items():
            shown = _by_way([case for case in those if case.shown.startswith(system)])
            if shown:
                found[column][Line(system, colour)] = [(_tokens(each), _right(each)) for each in shown.values()]
    return found


def evidence_report(cases: Sequence[Case]) -> str:
    """For each set, way of showing and kind of question: the gold turns that are shown, and whether oldest first."""
    rows = []
    gold = [case for case in cases if case.found is not None]
    for name in _distinct(case.set for case in gold):
        for way, those in _by_way([case for case in gold if case.set == name]).items():
            rows.append(_evidence_row(name, way, "all", [case for case in those if case.kind != FALSE_PREMISE]))
            for kind in KINDS:
                rows.append(_evidence_row(name, way, kind, [case for case in those if case.kind == kind]))
    header = ["set", "shown", "kind", "questions", "tokens", "share shown", "all shown", "all, oldest first"]
    return table(header, [row for row in rows if row[3] != "0"])


def _evidence_row(name: str, way: str, kind: str, cases: Sequence[Case]) -> list[str]:
    return [
        name,
        way,
        kind,
        f"{len(cases):,}",
        figure(_tokens(cases), 0),
        figure(mean(case.found or 0 for case in cases), 3),
        figure(mean(float(bool(case.all_found)) for case in cases), 3),
        figure(mean(float(bool(case.in_order)) for case in cases), 3),
    ]


def _right_answers(cases: Sequence[Case]) -> str:
    columns = _columns(cases)
    rows = []
    for way in _distinct(case.shown for case in cases):
        row = [way]
        for those in columns.values():
            shown = [case for case in those if case.shown == way]
            low, high = interval([case.right for case in shown])
            cell = f"{_right(shown):.3f} [{low:.3f}, {high:.3f}] of {len(shown):,} ({_tokens(shown):,.0f})"
            row.append(cell if shown else "-")
        rows.append(row)
    return table(["right answers [95 % interval] of questions (tokens shown)", *columns], rows)


def _by_kind(cases: Sequence[Case]) -> str:
    kinds = [kind for kind in KINDS if any(case.kind == kind for case in cases)]
    rows = []
    for name in _distinct(case.set for case in cases):
        for way, those in _by_way([case for case in cases if case.set == name]).items():
            row = [name, way]
            for kind in kinds:
                asked = [case for case in those if case.kind == kind]
                row.append(f"{_right(asked):.3f} of {len(asked):,}" if asked else "-")
            rows.append(row)
    return table(["right answers by kind", "shown", *kinds], rows)


def _agreements(cases: Sequence[Case]) -> list[str]:
    pairs = []
    for case in cases:
        first, *others = case.verdicts.values()
        if others:
            pairs.append((first is True, others[0] is True))
    if not pairs:
        return []
    raw, kappa = agreement(pairs)
    return [f"The first two judges agree on {100 * raw:.1f} %; Cohen's kappa is {figure(kappa, 2)}."]


def _columns(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """The cases of each set, and apart from them those with a false premise, of all sets."""
    columns: dict[str, list[Case]] = {}
    for case in cases:
        if case.kind != FALSE_PREMISE:
            columns.setdefault(case.set, []).append(case)
    unsaid = [case for case in cases if case.kind == FALSE_PREMISE]
    return {**columns, FALSE_PREMISES: unsaid} if unsaid else columns


def _by_way(cases: Iterable[Case]) -> dict[str, list[Case]]:
    ways: dict[str, list[Case]] = {}
    for case in cases:
        ways.setdefault(case.shown, []).append(case)
    return ways


def _right(cases: Iterable[Case]) -> float:
    return mean(case.right for case in cases)


def _tokens(cases: Iterable[Case]) -> float:
    return mean(case.tokens for case in cases)


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
