"""Tables and figures as text: the form in which a benchmark prints, and a README quotes."""

import math
from collections.abc import Iterable, Sequence


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
