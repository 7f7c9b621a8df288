"""How far a command has come, on standard error: a bar at a terminal, else a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

LINE_SECONDS = 5.0
"""A line is printed this often where there is no terminal."""

Came = Callable[[int, str], None]
"""Receives how much is done of the whole, and what to say beside it."""


@contextmanager
def show_progress(name: str, total: int | None) -> Iterator[Came]:
    """Show how far it is to ``total`` (None: it is unknown)."""
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
