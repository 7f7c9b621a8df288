"""Evidence against tokens as an SVG file: a panel for each set, a line for each system, on any background."""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.hosting import AFTER, BEFORE, CONTEXT, NOT_SURE, RECALL
from benchmarks.lived_figures import BM25_LINES, NEWEST

# System, stage, answers: the name in the legend, the colour, and the dashes. The colours are read on black and on white.
_LINES = {
    (RECALL, BEFORE, ""): ("recall_memory", "#2f81d6", ""),
    (RECALL, AFTER, NOT_SURE): ("recall_memory, questions stored", "#2f81d6", "6 4"),
    (CONTEXT, BEFORE, ""): ("get_context", "#d9730d", ""),
    (CONTEXT, AFTER, NOT_SURE): ("get_context, questions stored", "#d9730d", "6 4"),
    (BM25_LINES, BEFORE, ""): ("BM25 lines", "#3d9a50", ""),
    (BM25_LINES, AFTER, NOT_SURE): ("BM25 lines, questions stored", "#3d9a50", "6 4"),
    (NEWEST, BEFORE, ""): ("newest lines", "#a35cc4", ""),
}
_GREY = "#808080"
_WIDTH, _HEIGHT = 330, 300
_LEFT, _TOP, _GAP, _BELOW = 52, 34, 34, 48
_LEGEND_ROW = 20
_LEGEND_COLUMNS = 2
_LEAST, _MOST = 50, 10_000
_TICKS = (100, 300, 1_000, 3_000, 10_000)


def drawn(report: Mapping[str, Mapping[str, Any]]) -> str:
    """The figures of ``benchmarks.lived`` as one SVG document."""
    panels = [_panel(name, found["shown"], at) for at, (name, found) in enumerate(report.items())]
    width = _LEFT + max(len(report), 2) * (_WIDTH + _GAP)
    legend_top = _TOP + _HEIGHT + _BELOW + 16
    height = legend_top + -(-len(_LINES) // _LEGEND_COLUMNS) * _LEGEND_ROW
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif" font-size="12" fill="{_GREY}">',
            "<title>Evidence shown against tokens</title>",
            *panels,
            *_legend(legend_top, width),
            "</svg>",
            "",
        ]
    )


def _panel(name: str, rows: Sequence[Mapping[str, Any]], at: int) -> str:
    left = _LEFT + at * (_WIDTH + _GAP)
    parts = [f'<g transform="translate({left} {_TOP})">', *_axes(name, with_title=at == 0)]
    for (system, stage, answers), (_, colour, dashes) in _LINES.items():
        key = {"system": system, "stage": stage, "answers": answers}
        found = sorted((row["tokens"], row["evidence"]) for row in rows if key.items() <= row.items())
        if found:
            parts.append(_line([(_x(tokens), _y(share)) for tokens, share in found], colour, dashes))
    return "\n".join([*parts, "</g>"])


def _axes(name: str, *, with_title: bool) -> list[str]:
    parts = [f'<text x="{_WIDTH / 2}" y="-14" text-anchor="middle" font-size="14">{escape(name)}</text>']
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10)
        parts.append(_rule(0, y, _WIDTH, y, 0.3 if tenth else 1))
        parts.append(f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>')
    for tokens in _TICKS:
        x = _x(tokens)
        parts.append(_rule(x, 0, x, _HEIGHT, 0.3))
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT + 18}" text-anchor="middle">{tokens:,}</text>')
    parts.append(_rule(0, 0, 0, _HEIGHT, 1))
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT + 38}" text-anchor="middle">tokens shown, mean</text>')
    if with_title:
        middle = _HEIGHT / 2
        parts.append(
            f'<text x="-38" y="{middle}" text-anchor="middle" transform="rotate(-90 -38 {middle})">'
            "share of the evidence shown</text>"
        )
    return parts


def _legend(top: float, width: float) -> list[str]:
    parts = []
    for number, (label, colour, dashes) in enumerate(_LINES.values()):
        row, column = divmod(number, _LEGEND_COLUMNS)
        x, y = _LEFT + column * (width - _LEFT) / _LEGEND_COLUMNS, top + row * _LEGEND_ROW
        parts.append(_line([(x, y), (x + 30, y)], colour, dashes))
        parts.append(f'<text x="{x + 40:.1f}" y="{y + 4:.1f}">{escape(label)}</text>')
    return parts


def _line(points: Sequence[tuple[float, float]], colour: str, dashes: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>{dots}'


def _rule(x1: float, y1: float, x2: float, y2: float, opacity: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{_GREY}" stroke-opacity="{opacity}"/>'


def _x(tokens: float) -> float:
    """Tokens on a scale of logarithms."""
    kept = min(max(tokens, _LEAST), _MOST)
    return _WIDTH * log(kept / _LEAST) / log(_MOST / _LEAST)


def _y(share: float) -> float:
    return _HEIGHT * (1 - share)
