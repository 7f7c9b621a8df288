"""``layerlore reindex``: update the search index and the vectors, and show the progress."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.engine.engine import Engine
from layerlore.memory.recall.vector_writer import VectorWriter, rebuild_all, rebuild_old
from layerlore.server.command_line.known_engine import open_known_memory
from layerlore.server.command_line.options import read_settings, report_away
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import Conflict, StorageUnavailable
from layerlore.storage.drivers.dialect import HOME_NAME
from layerlore.storage.index import vectors
from layerlore.storage.messages import place_rows

LINE_SECONDS = 5.0
"""Progress is printed this often if there is no terminal."""

T = TypeVar("T")
Done = Callable[[int], None]


def run_reindex(settings: Settings, *, rebuild: bool) -> int:
    """Index again what older rules indexed, or with ``rebuild`` every message, and make the missing vectors, in all scopes.
    Servers may run meanwhile. Returns the exit code.

    Raises EmbeddingFailed, Conflict, NotFound, StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    return asyncio.run(_reindex(settings, rebuild))


async def _reindex(settings: Settings, rebuild: bool) -> int:
    async with open_known_memory(settings, off="nothing can be indexed", absent="nothing is stored") as opened:
        engines = opened.for_clusters()
        if len(engines) == 1:
            await _index(opened, rebuild)
            return 0
        away: list[str] = []
        names = [HOME_NAME, *(shard.name for shard in settings.shards)]
        for name, engine in zip(names, engines, strict=True):
            _say(f"cluster {name}:")
            try:
                await _index(engine, rebuild)
            except StorageUnavailable as error:
                if engine is opened:
                    raise
                away.append(str(error))
        return report_away(away)


async def _index(engine: Engine, rebuild: bool) -> None:
    await _words(engine, rebuild)
    if engine.embedding is None:
        _say("vectors: none, because no embedder is set (embedding.embedder = none)")
    else:
        await _vectors(engine, engine.embedding)


async def _words(engine: Engine, rebuild: bool) -> None:
    if rebuild:
        total = await engine.database.read_installation(place_rows.count_messages)
        make = rebuild_all
    else:
        total = None
        make = rebuild_old
    done, seconds = await _track("words", total, lambda report: make(engine, report))
    if done or rebuild:
        _say(f"words: {done:,} messages indexed, {_rate(done, seconds)}")
    else:
        _say("words: up to date")


async def _vectors(engine: Engine, embedding: EmbeddingService) -> None:
    model = embedding.embedder.name
    before = await engine.database.read_installation(vectors.progress_everywhere, model)
    # A new id, as each process that writes vectors has one; only one of them may write at a time.
    writer = VectorWriter(engine, embedding, engine.new_id())
    alone, seconds = await _track("vectors", before.total - before.done, writer.scan)
    if not alone:
        raise Conflict(f"another process is making vectors with {model} right now; memory_status shows its progress")
    # Another process may delete texts meanwhile, so the difference is not below zero.
    after = await engine.database.read_installation(vectors.progress_everywhere, model)
    done = max(0, after.done - before.done)
    if done:
        made = f"{done:,} made, {_rate(done, seconds)}; "
    else:
        made = "up to date; "
    _say(f"vectors of {model}: {made}{after.done:,} of {after.total:,} texts have one")


def _rate(done: int, seconds: float) -> str:
    # A run may take no measurable time.
    return f"{done / max(seconds, 0.001):,.0f} a second"


async def _track(name: str, total: int | None, work: Callable[[Done], Awaitable[T]]) -> tuple[T, float]:
    """Do the work and show its progress. Returns its result and the seconds it took."""
    began = time.monotonic()
    with _bar(name, total) if sys.stdout.isatty() else _lines(name, total) as report:
        answer = await work(report)
    return answer, time.monotonic() - began


@contextmanager
def _bar(name: str, total: int | None) -> Iterator[Done]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(), transient=True) as progress:
        task = progress.add_task(name, total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def _lines(name: str, total: int | None) -> Iterator[Done]:
    so_far, reported_at = 0, time.monotonic()

    def report(done: int) -> None:
        nonlocal so_far, reported_at
        so_far += done
        if time.monotonic() - reported_at >= LINE_SECONDS:
            reported_at = time.monotonic()
            _say(f"{name}: {so_far:,}" + (f" of {total:,}" if total is not None else ""))

    yield report


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def reindex(
    flags: dict[str, Any],
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Index every message again.")] = False,
) -> int:
    """Update the search index and the vectors, as servers do in the background."""
    return run_reindex(read_settings(flags), rebuild=rebuild)
