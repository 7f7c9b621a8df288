"""Output for people: tables as wide as the terminal, findings, progress, and questions."""

import os
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
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
    # A table that is narrower than its longest words would break ids, which people copy.
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


State = Literal["ok", "degraded", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact about the installation. ``mend``: how to fix it if it is degraded or failed."""

    section: str
    name: str
    value: str
    state: State = "ok"
    mend: str = ""


def expect(section: str, name: str, holds: bool, *, yes: str, no: str, mend: str, state: State = "degraded") -> Finding:
    """A finding with the value ``yes`` if something holds, else ``no`` with the state and how to fix it."""
    if holds:
        return Finding(section, name, yes)
    return Finding(section, name, no, state, mend)


def check_mode(section: str, name: str, value: str, path: Path, *, closed: Literal["rwx", "w"], risk: str) -> Finding:
    """A finding about the mode of a file or folder: degraded if other users have that access. ``risk``: what they could
    do."""
    # Windows has access lists, which a mode does not show.
    if os.name != "posix":
        return Finding(section, name, value)
    mode = stat.S_IMODE(path.stat().st_mode)
    shown = f"{value}, mode {mode:04o}"
    is_closed = not mode & (0o077 if closed == "rwx" else 0o022)
    mend = f"other users of this machine {risk}; run chmod go-{closed} {path}"
    return expect(section, name, is_closed, yes=shown, no=shown, mend=mend)


LINE_SECONDS = 5.0
"""Without a terminal, a line is printed at this interval."""

Came = Callable[[int, str], None]
"""Takes the amount that is done, and a text to show beside it."""


@contextmanager
def show_progress(name: str, total: int | None) -> Iterator[Came]:
    """Show the progress towards ``total`` (None: unknown)."""
    # Progress goes to standard error, so that the result on standard output stays clean.
    if sys.stderr.isatty():
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[said]}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(name, total=total, said="")
            yield lambda done, said: progress.update(task, completed=done, said=said)
        return
    reported_at = time.monotonic()

    def report(done: int, said: str) -> None:
        nonlocal reported_at
        if time.monotonic() - reported_at >= LINE_SECONDS:
            reported_at = time.monotonic()
            if total:
                share = f"{100 * done // total} %, "
            else:
                share = ""
            sys.stderr.write(f"{name}: {share}{said}\n")
            sys.stderr.flush()

    yield report


def ask_person(question: str) -> bool:
    """Whether the person agrees; only "y" and "yes" count as a yes. Ctrl-C ends the program.

    It blocks the event loop on purpose: in another thread, Ctrl-C would only work after the answer."""
    with _ending_at_interrupt():
        # Standard error, since standard output may go into a file.
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def _ending_at_interrupt() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt at once. asyncio turns it into a cancellation, which a blocked loop never sees."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread gets signals.
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
