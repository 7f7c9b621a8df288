"""Several server processes on one store, several tasks of a client at each, all writing the same threads."""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import anyio
from mcp import MCPError

from benchmarks.metrics import percentile
from benchmarks.sample_text import SampleText
from benchmarks.servers import Connection, Launch, ToolFailed, over_stdio
from benchmarks.stored import Stored

THREADS = ("shared-0", "shared-1", "shared-2", "shared-3")
# Of ten calls eight add, one reads a page, one recalls.
_CALLS = ("add", "add", "add", "add", "get", "add", "add", "add", "add", "recall")


@dataclass(slots=True)
class Crowded:
    """What was acknowledged, how many seconds each add and each other call took, and every error."""

    wall_seconds: float = 0.0
    acknowledged: list[str] = field(default_factory=list)
    adds: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def lost(self, stored: Stored) -> list[str]:
        return sorted(set(self.acknowledged).difference(stored.ids))


async def crowd(launch: Launch, *, processes: int, tasks: int, seconds: float) -> Crowded:
    """Run for so many seconds, counted from when every process answers."""
    found = Crowded()
    async with AsyncExitStack() as running:
        connections = [await running.enter_async_context(over_stdio(launch)) for _ in range(processes)]
        for connection in connections:
            for thread in THREADS:
                await connection.call("update_thread", thread_id=thread, title=thread)
        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for at, connection in enumerate(connections):
                for task in range(tasks):
                    group.start_soon(_work, connection, f"{at}-{task}", began + seconds, found)
        found.wall_seconds = time.perf_counter() - began
    return found


async def _work(connection: Connection, name: str, until: float, found: Crowded) -> None:
    text = SampleText(sum(map(ord, name)))
    number = 0
    while time.perf_counter() < until:
        thread = THREADS[number % len(THREADS)]
        act = _CALLS[number % len(_CALLS)]
        message = text.message() | {"id": f"{name}-{number}"}
        number += 1
        at = time.perf_counter()
        try:
            if act == "add":
                await connection.call("add_messages", thread_id=thread, messages=[message])
            elif act == "get":
                await connection.call("get_messages", thread_id=thread, limit=20)
            else:
                await connection.call("recall_memory", query=text.question())
        except (ToolFailed, MCPError) as error:
            found.errors.append(str(error))
            continue
        (found.adds if act == "add" else found.reads).append(time.perf_counter() - at)
        if act == "add":
            found.acknowledged.append(message["id"])


def crowd_figures(found: Crowded, stored: Stored, problems: Sequence[str] | None) -> dict[str, float | None]:
    """What the run came to; ``problems`` is None where the database has no such check."""
    calls = len(found.adds) + len(found.reads)
    return {
        "calls": calls,
        "calls a second": calls / found.wall_seconds,
        "acknowledged": len(found.acknowledged),
        "lost": len(found.lost(stored)),
        "stored but unacknowledged": len(set(stored.ids).difference(found.acknowledged)),
        "stored twice": stored.repeated,
        "breaks in the order": stored.breaks,
        "integrity problems": None if problems is None else len(problems),
        "errors": len(found.errors),
        **_latency("add", found.adds),
        **_latency("other calls", found.reads),
    }


def _latency(name: str, seconds: Sequence[float]) -> dict[str, float | None]:
    shares = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    return {f"{name}: {label} ms": percentile(seconds, share) * 1000 for label, share in shares}
