"""Shares against tokens as an SVG file: a panel for each set, a line for each system, on any background."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from xml.sax.saxutils import escape

# They can be read on black and on white.
BLUE, ORANGE, GREEN, VIOLET = "#2f81d6", "#d9730d", "#3d9a50", "#a35cc4"
DASHED = "6 4"

_GREY = "#808080"
_WIDTH, _HEIGHT = 330, 300
_LEFT, _TOP, _GAP, _BELOW = 52, 34, 34, 48
_LEGEND_ROW = 20
_LEGEND_COLUMNS = 2
_LEAST, _MOST = 50, 10_000
_TICKS = (100, 300, 1_000, 3_000, 10_000)

Points = Sequence[tuple[float, float]]
"""Tokens and a share of 1, for each point of a line."""


@dataclass(frozen=True, slots=True)
class Line:
    """How a system is drawn: its name in the legend, its colour, and its dashes, if it has any."""

    label: str
    colour: str
    dashes: str = ""


def drawn(title: str, share: str, panels: Mapping[str, Mapping[Line, Points]]) -> str:
    """One SVG document; ``share`` names the share on the vertical axis."""
    # A line stands once in the legend, however many panels have it.
    lines = list(dict.fromkeys(line for panel in panels.values() for line in panel))
    width = _LEFT + max(len(panels), 2) * (_WIDTH + _GAP)
    legend_top = _TOP + _HEIGHT + _BELOW + 16
    height = legend_top + -(-len(lines) // _LEGEND_COLUMNS) * _LEGEND_ROW
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif" font-size="12" fill="{_GREY}">',
            f"<title>{escape(title)}</title>",
            _vertical_title(share),
            *(_panel(name, panel, at) for at, (name, panel) in enumerate(panels.items())),
            *_legend(lines, legend_top, width),
            "</svg>",
            "",
        ]
    )


def _vertical_title(share: str) -> str:
    x, y = _LEFT - 38, _TOP + _HEIGHT / 2
    return f'<text x="{x}" y="{y}" text-anchor="middle" transform="rotate(-90 {x} {y})">{escape(share)}</text>'


def _panel(name: str, panel: Mapping[Line, Points], at: int) -> str:
    left = _LEFT + at * (_WIDTH + _GAP)
    parts = [f'<g transform="translate({left} {_TOP})">', *_axes(name)]
    for line, points in panel.items():
        parts.append(_drawn_line(line, [(_x(tokens), _y(share)) for tokens, share in sorted(points)]))
    return "\n".join([*parts, "</g>"])


def _axes(name: str) -> list[str]:
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
    return parts


def _legend(lines: Sequence[Line], top: float, width: float) -> list[str]:
    parts = []
    for number, line in enumerate(lines):
        row, column = divmod(number, _LEGEND_COLUMNS)
        x, y = _LEFT + column * (width - _LEFT) / _LEGEND_COLUMNS, top + row * _LEGEND_ROW
        parts.append(_drawn_line(line, [(x, y), (x + 30, y)]))
        parts.append(f'<text x="{x + 40:.1f}" y="{y + 4:.1f}">{escape(line.label)}</text>')
    return parts


def _drawn_line(line: Line, points: Points) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{line.dashes}"' if line.dashes else ""
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"/>' for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"{dashed}/>{dots}'


def _rule(x1: float, y1: float, x2: float, y2: float, opacity: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{_GREY}" stroke-opacity="{opacity}"/>'


def _x(tokens: float) -> float:
    """Tokens on a scale of logarithms."""
    kept = min(max(tokens, _LEAST), _MOST)
    return _WIDTH * log(kept / _LEAST) / log(_MOST / _LEAST)


def _y(share: float) -> float:
    return _HEIGHT * (1 - share)
