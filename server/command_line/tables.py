"""Tables for people: as wide as their terminal, or one line for each row if no terminal exists."""

import shutil
import sys
from collections.abc import Collection, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_NEVER_CUT = 10_000  # columns


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Collection[str] = (),
    total: Sequence[str] | None = None,
) -> None:
    """Print the rows, then ``total`` below a line. ``numbers``: the headings of columns to align on the right.

    If a table would have to break words to fit, each row is a block of lines with heading and value instead.
    """
    width = shutil.get_terminal_size(fallback=(_NEVER_CUT, 0)).columns  # the variable COLUMNS goes first
    console = Console(width=width, highlight=False, markup=False)
    table = _make_table(headings, rows, numbers, total)
    if Measurement.get(console, console.options.update(width=_NEVER_CUT), table).minimum <= width:
        console.print(table)
        return
    longest = max(len(heading) for heading in headings)
    for row in [*rows, *([total] if total is not None else [])]:
        lines = [f"{heading:<{longest}}  {value}" for heading, value in zip(headings, row, strict=True) if value]
        sys.stdout.write("\n".join(lines) + "\n\n")


def _make_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[str], total: Sequence[str] | None
) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    if total is not None:
        table.add_section()
        table.add_row(*total)
    return table
