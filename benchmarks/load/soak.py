"""A long run of the mix: whether memory and file handles grow, and whether an acknowledged message is lost."""

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.embedders import EMBEDDER_SETTING
from benchmarks.load.fleet import Fleet, Store, Stores, connected, launches_of
from benchmarks.load.mix import Calls, Tally, call_until, find_lost, names
from benchmarks.metrics import median
from benchmarks.tables import figure, table

MORE_MB = 10.0
"""How much a server may hold more in the last third of the run than in the middle one: its caches are full by then."""
MORE_FILES = 2.0
HEADER = (
    *("transport", "database", "minutes", "calls", "errors", "busy", "p50 ms", "p99 ms", "acknowledged", "lost"),
    *("MB, middle third", "last third", "files, middle third", "last third"),
)
_SAMPLES = 120


@dataclass(slots=True)
class Samples:
    """Resident memory and open files, looked at from time to time."""

    fleet: Fleet
    resident_mb: list[float] = field(default_factory=list)
    files: list[float] = field(default_factory=list)

    async def watch(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            self.resident_mb.append(self.fleet.resident_mb())
            self.files.append(self.fleet.open_files())


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the middle third and of the last one."""
    third = len(values) // 3
    return median(values[third : 2 * third]), median(values[2 * third :])


async def measure_soak(stores: Stores, options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for transport in options.transports:
        for database in options.databases:
            found.append(await _soak(await stores.new(database), transport, options))
    print(f"\n## {options.minutes:g} minutes, {options.clients} clients\n")
    print(table(HEADER, map(_row, found)))
    return found


async def _soak(store: Store, transport: Any, options: argparse.Namespace) -> dict[str, Any]:
    seconds = options.minutes * 60
    launches = launches_of(store, transport, 1, **{EMBEDDER_SETTING: options.embedder})
    calls = [Calls(name, options.mix) for name in names("soak", options.clients)]
    tally = Tally()
    async with connected(transport, launches, options.clients, store.postgres) as fleet:
        samples = Samples(fleet)
        watching = asyncio.create_task(samples.watch(seconds / _SAMPLES))
        end = time.perf_counter() + seconds
        async with asyncio.TaskGroup() as tasks:
            for caller, each in zip(fleet.callers, calls, strict=True):
                tasks.create_task(call_until(caller, each, tally, end))
        watching.cancel()
        lost = await find_lost(fleet.callers, calls, tally)
    return _figures(store, transport, options, tally, samples, lost)


def _figures(
    store: Store, transport: str, options: argparse.Namespace, tally: Tally, samples: Samples, lost: list[str]
) -> dict[str, Any]:
    memory, files = thirds(samples.resident_mb), thirds(samples.files)
    about = f"{transport}, {store.database}"
    faults = [f"{about}: {len(lost)} acknowledged messages are lost"] if lost else []
    if tally.error_count:
        faults.append(f"{about}: {tally.error_count} errors, such as {next(iter(tally.errors))}")
    # In a short run caches still fill.
    if not options.quick and memory[1] > memory[0] + MORE_MB:
        faults.append(f"{about}: memory grows from {memory[0]:.0f} to {memory[1]:.0f} MB")
    if not options.quick and files[1] > files[0] + MORE_FILES:
        faults.append(f"{about}: open files grow from {files[0]:.0f} to {files[1]:.0f}")
    return {
        "transport": transport,
        "database": store.database,
        "minutes": options.minutes,
        "calls": tally.outcomes.total(),
        "errors": tally.error_count,
        "busy": tally.outcomes["busy"],
        "p50_ms": tally.ms(0.5),
        "p99_ms": tally.ms(0.99),
        "acknowledged": sum(map(len, tally.acknowledged.values())),
        "lost": len(lost),
        "resident_mb": samples.resident_mb,
        "files": samples.files,
        "faults": faults,
    }


def _row(found: dict[str, Any]) -> list[str]:
    return [
        found["transport"],
        found["database"],
        figure(found["minutes"], 1),
        *(f"{found[name]:,}" for name in ("calls", "errors", "busy")),
        *(figure(found[name], 0) for name in ("p50_ms", "p99_ms")),
        *(f"{found[name]:,}" for name in ("acknowledged", "lost")),
        *(figure(each, 0) for name in ("resident_mb", "files") for each in thirds(found[name])),
    ]
