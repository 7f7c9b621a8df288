"""The figures of ``benchmarks.lived``: means by place, and the tables that are printed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.chart import BLUE, DASHED, GREEN, ORANGE, VIOLET, Line, Points
from benchmarks.hosting import (
    AFTER,
    BEFORE,
    CONTEXT,
    CONTEXT_TOKENS,
    NO_ANSWER,
    NOT_SURE,
    RECALL,
    RECALL_TOKENS,
    STORED,
    Place,
    Result,
    Standing,
    Tally,
)
from benchmarks.metrics import mean
from benchmarks.tables import figure, table

BM25_LINES = "BM25 lines"
NEWEST = "newest lines"
SYSTEMS = (RECALL, CONTEXT, BM25_LINES, NEWEST)

_STAGES = {
    (BEFORE, ""): "before anything is stored",
    (STORED, NO_ANSWER): "after the question was stored (questions alone)",
    (STORED, NOT_SURE): 'after the question was stored (answers "not sure")',
    (AFTER, NO_ANSWER): "once all questions were stored",
    (AFTER, NOT_SURE): 'once all were stored and answered with "not sure"',
}
_ORDER = list(_STAGES)
_WHEN = {(BEFORE, ""): "before", (AFTER, NOT_SURE): "after"}
# System, stage and answers, and how they are drawn.
_LINES = {
    (RECALL, BEFORE, ""): Line("recall_memory", BLUE),
    (RECALL, AFTER, NOT_SURE): Line("recall_memory, questions stored", BLUE, DASHED),
    (CONTEXT, BEFORE, ""): Line("get_context", ORANGE),
    (CONTEXT, AFTER, NOT_SURE): Line("get_context, questions stored", ORANGE, DASHED),
    (BM25_LINES, BEFORE, ""): Line("BM25 lines", GREEN),
    (BM25_LINES, AFTER, NOT_SURE): Line("BM25 lines, questions stored", GREEN, DASHED),
    (NEWEST, BEFORE, ""): Line("newest lines", VIOLET),
}
_HEADER = ("system", "when", "room", "tokens", "evidence", "sentences counted strictly")


def figures(tally: Tally) -> dict[str, Any]:
    """``shown``: a row for each place; ``absent``: what recalls of absent questions said of themselves."""
    first = next(iter(tally.results.values()), [])
    return {
        "questions": len(first),
        "shown": [_row(place, results) for place, results in sorted(tally.results.items(), key=_order)],
        "absent": [
            {**_place(place), "questions": len(standings), **_standings(standings)}
            for place, standings in sorted(tally.absent.items(), key=_order)
        ],
        "failed": len(tally.failed),
        "failures": sorted(set(tally.failed))[:3],
    }


def _order(item: tuple[Place, Any]) -> tuple[int, int, int]:
    place = item[0]
    return SYSTEMS.index(place.system), _ORDER.index((place.stage, place.answers)), place.room


def _place(place: Place) -> dict[str, Any]:
    return {"system": place.system, "stage": place.stage, "answers": place.answers, "room": place.room}


def _row(place: Place, results: Sequence[Result]) -> dict[str, Any]:
    categories = sorted({each.category for each in results})
    return {
        **_place(place),
        "questions": len(results),
        "evidence": mean(each.share for each in results),
        "strict": mean(each.strict for each in results),
        "tokens": mean(each.tokens for each in results),
        "degraded": mean(float(each.degraded) for each in results),
        **(_standings([each.standing for each in results]) if place.system == RECALL else {}),
        "categories": {name: mean(each.share for each in results if each.category == name) for name in categories},
    }


def _standings(standings: Sequence[Standing]) -> dict[str, float]:
    return {kind.value: mean(float(each is kind) for each in standings) for kind in Standing}


def shown(found: Mapping[str, Any]) -> str:
    """A set's table: each system in each room, before and after."""
    rows = [
        [
            each["system"],
            _WHEN[each["stage"], each["answers"]],
            f"{each['room']:,}",
            figure(each["tokens"], 0),
            figure(each["evidence"], 3),
            figure(each["strict"], 3),
        ]
        for system in SYSTEMS
        for each in _of(found["shown"], system)
        if (each["stage"], each["answers"]) in _WHEN
    ]
    lines = [f"{found['questions']:,} questions", table(_HEADER, rows)]
    degraded = max((each["degraded"] for each in _of(found["shown"], RECALL)), default=0.0)
    if degraded:
        lines.append(f"Recalls that say degraded: up to {degraded * 100:.1f} % in one place.")
    if found["failed"]:
        lines.append(f"Calls that failed: {found['failed']:,}, as {found['failures'][0]}")
    return "\n\n".join(lines)


def panels(report: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[Line, Points]]:
    """What is drawn for each set: the evidence that each system shows against its tokens."""
    found: dict[str, dict[Line, Points]] = {}
    for name, figures_of_set in report.items():
        found[name] = {}
        for (system, stage, answers), line in _LINES.items():
            rows = [row for row in _of(figures_of_set["shown"], system) if row["stage"] == stage]
            points = [(row["tokens"], row["evidence"]) for row in rows if row["answers"] == answers]
            if points:
                found[name][line] = points
    return found


def summary(report: Mapping[str, Mapping[str, Any]]) -> str:
    """One column for each set: what is shown, in tokens, by default and of the lines alone; then how sure it is."""
    rows: list[list[str]] = []
    tools = ((RECALL, RECALL_TOKENS, "recall_memory by default"), (CONTEXT, CONTEXT_TOKENS, "get_context of 4,000"))
    for system, room, name in tools:
        for when, said in _STAGES.items():
            rows.append([f"{name}, {said}", *_cells(report.values(), Place(system, *when, room))])
    for system in (BM25_LINES, NEWEST):
        for room in sorted({each["room"] for found in report.values() for each in _of(found["shown"], system)}):
            rows.append([f"{system}, {room:,} tokens", *_cells(report.values(), Place(system, BEFORE, "", room))])
    rows += _standing_rows(report, "absent", "absent questions answered with confidence", (Standing.CONFIDENT,))
    rows += _standing_rows(report, "shown", "real questions answered unsure", (Standing.UNSURE,))
    rows += _standing_rows(report, "shown", "real questions answered with nothing", (Standing.NOTHING,))
    header = ["share of the gold evidence shown (tokens)", *report]
    return table(header, [row for row in rows if any(cell != "-" for cell in row[1:])])


def _standing_rows(
    report: Mapping[str, Mapping[str, Any]], part: str, name: str, kinds: Iterable[Standing]
) -> list[list[str]]:
    rows = []
    for (stage, answers), said in _STAGES.items():
        place = Place(RECALL, stage, answers, RECALL_TOKENS)
        cells = []
        for found in report.values():
            row = _at(found[part], place)
            cells.append("-" if row is None else f"{100 * sum(row[kind.value] for kind in kinds):.1f} %")
        rows.append([f"{name}, {said}", *cells])
    return rows


def _cells(sets: Iterable[Mapping[str, Any]], place: Place) -> list[str]:
    rows = [_at(found["shown"], place) for found in sets]
    return ["-" if row is None else f"{row['evidence']:.3f} ({row['tokens']:,.0f})" for row in rows]


def _at(rows: Iterable[Mapping[str, Any]], place: Place) -> Mapping[str, Any] | None:
    wanted = _place(place)
    return next((row for row in rows if wanted.items() <= row.items()), None)


def _of(rows: Iterable[Mapping[str, Any]], system: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["system"] == system]
