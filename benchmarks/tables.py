"""Figures as text: tables, as a benchmark prints and a README quotes them, and JSON."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table with its columns lined up: the first to the left, the others to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[at]) for row in cells)) for at in range(len(header))]
    lines = [
        [text.ljust(widths[0]), *(t.rjust(w) for t, w in zip(rest, widths[1:], strict=True))] for text, *rest in cells
    ]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def figure(value: float, digits: int = 2) -> str:
    """A number with thousands separators; a dash for one that there is not."""
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"


def verdict(holds: bool | None) -> str:
    """``hold`` or ``miss``; a dash where nothing is expected."""
    return {True: "hold", False: "miss", None: "-"}[holds]


def write_json(path: Path | None, figures: Any) -> None:
    """Write figures to a file, if one was asked for; one that there is not becomes null."""
    if path is not None:
        path.write_text(json.dumps(_plain(figures), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _plain(figures: Any) -> Any:
    if isinstance(figures, dict):
        return {name: _plain(value) for name, value in figures.items()}
    if isinstance(figures, list):
        return [_plain(value) for value in figures]
    return None if isinstance(figures, float) and math.isnan(figures) else figures
