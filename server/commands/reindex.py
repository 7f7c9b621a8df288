"""``layerlore reindex``: the search index and the vectors are brought up to date, while one looks on."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from layerlore.memory.embedding.service import Embedding
from layerlore.memory.engine import Engine
from layerlore.memory.reindexing import rebuild_all, rebuild_old
from layerlore.memory.vector_writing import VectorWriter
from layerlore.server.commands.stored import stored_memory
from layerlore.server.settings import Settings
from layerlore.storage import places, vectors
from layerlore.storage.errors import Conflict

LINE_SECONDS = 5.0
"""Where there is no terminal, how often a line says how far it is."""

T = TypeVar("T")
Done = Callable[[int], None]


def reindex(settings: Settings, *, rebuild: bool) -> int:
    """Index what older rules indexed, or with ``rebuild`` every message, anew, and make the vectors that are missing,
    in all scopes. Servers may go on meanwhile. Returns the exit code.

    Raises EmbeddingFailed, Conflict, NotFound, StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    return asyncio.run(_reindex(settings, rebuild))


async def _reindex(settings: Settings, rebuild: bool) -> int:
    async with stored_memory(settings, off="nothing can be indexed", absent="nothing is stored") as engine:
        await _words(engine, rebuild)
        if engine.embedding is None:
            _say("vectors: none, since there is no embedder (embedding.embedder = none)")
        else:
            await _vectors(engine, engine.embedding)
    return 0


async def _words(engine: Engine, rebuild: bool) -> None:
    total = await engine.database.read_installation(places.count_messages) if rebuild else None
    make = rebuild_all if rebuild else rebuild_old
    done, seconds = await _shown("words", total, lambda told: make(engine, told))
    if done or rebuild:
        _say(f"words: {done:,} messages indexed anew, {_rate(done, seconds)}")
    else:
        _say("words: up to date")


async def _vectors(engine: Engine, embedding: Embedding) -> None:
    model = embedding.embedder.name
    before = await engine.database.read_installation(vectors.progress_everywhere, model)
    writer = VectorWriter(engine, embedding, engine.new_id())
    alone, seconds = await _shown("vectors", before.total - before.done, writer.scan)
    if not alone:
        raise Conflict(f"another process is making vectors with {model} right now; memory_status tells how far it is")
    after = await engine.database.read_installation(vectors.progress_everywhere, model)
    done = max(0, after.done - before.done)
    made = f"{done:,} made, {_rate(done, seconds)}; " if done else "up to date; "
    _say(f"vectors of {model}: {made}{after.done:,} of {after.total:,} texts have one")


def _rate(done: int, seconds: float) -> str:
    return f"{done / max(seconds, 0.001):,.0f} a second"


async def _shown(name: str, total: int | None, work: Callable[[Done], Awaitable[T]]) -> tuple[T, float]:
    """What the work answers and the seconds it took; how far it is is shown meanwhile."""
    began = time.monotonic()
    with _bar(name, total) if sys.stdout.isatty() else _lines(name, total) as told:
        answer = await work(told)
    return answer, time.monotonic() - began


@contextmanager
def _bar(name: str, total: int | None) -> Iterator[Done]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(), transient=True) as progress:
        task = progress.add_task(name, total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def _lines(name: str, total: int | None) -> Iterator[Done]:
    so_far, told_at = 0, time.monotonic()

    def told(done: int) -> None:
        nonlocal so_far, told_at
        so_far += done
        if time.monotonic() - told_at >= LINE_SECONDS:
            told_at = time.monotonic()
            _say(f"{name}: {so_far:,}" + (f" of {total:,}" if total is not None else ""))

    yield told


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
