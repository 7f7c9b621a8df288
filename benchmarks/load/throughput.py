"""Clients that each send their next call once the one before was answered: ours and the no-op server in turn."""

import argparse
import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.embedders import EMBEDDER_SETTING, chosen
from benchmarks.filling import Pool, opened
from benchmarks.load.fleet import Fleet, Store, Stores, connected, launches_of
from benchmarks.load.mix import DEFAULT_MIX, NOTHING, Calls, Tally, call_until, names
from benchmarks.servers import noop
from benchmarks.tables import figure, table

HEADER = (
    *("server", "transport", "database", "servers", "calls/s", "of the no-op's", "p50 ms", "p95 ms", "p99 ms"),
    *("errors", "busy", "MB", "CPU ms: SDK", "ours", "database"),
)
KIND_HEADER = ("p50 / p95 ms", "transport", "database", "servers", *DEFAULT_MIX)
_WARM_SECONDS = 1.0
_READY_SECONDS = 120.0


@dataclass(slots=True)
class Loaded:
    """A fleet under load, and what came of it."""

    fleet: Fleet
    shares: Mapping[str, int]
    tally: Tally = field(default_factory=Tally)
    wall: float = 0.0
    cpu: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    resident_mb: float = 0.0
    calls: list[Calls] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.calls = [Calls(name, self.shares) for name in names("client", len(self.fleet.callers))]

    async def run(self, seconds: float, *, counted: bool = True) -> None:
        tally = self.tally if counted else Tally()
        before, began = self.fleet.used(), time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for caller, calls in zip(self.fleet.callers, self.calls, strict=True):
                tasks.create_task(call_until(caller, calls, tally, began + seconds))
        if counted:
            self.wall += time.perf_counter() - began
            used = self.fleet.used().since(before)
            self.cpu = [
                sum(each) for each in zip(self.cpu, (used.servers, used.database_threads, used.postgres), strict=True)
            ]
            self.resident_mb = max(self.resident_mb, self.fleet.resident_mb())

    @property
    def per_second(self) -> float:
        return self.tally.answered / self.wall

    def cpu_ms(self) -> tuple[float, float, float]:
        """A call's CPU of the servers, of their database threads, and of Postgres."""
        servers, threads, postgres = (seconds / max(1, self.tally.answered) * 1000 for seconds in self.cpu)
        return servers, threads, postgres


async def fill(store: Store, options: argparse.Namespace) -> None:
    """The messages that every recall searches, with their vectors."""
    embedder = chosen(options.embedder)
    pool = Pool(embedder, max(2, min(2000, options.messages)))
    async with opened(store.folder, store.url, embedder) as opened_store:
        await opened_store.fill("default", "filled", pool.drawn(options.messages))


async def until_ready(fleet: Fleet, servers: int) -> None:
    """Wait until each server has its embedder and the vectors of what is stored. Raises TimeoutError."""
    async with asyncio.timeout(_READY_SECONDS):
        for caller in fleet.callers[:servers]:
            while True:
                answer = await caller.call("memory_status", {})
                vectors = (answer.content or {}).get("vectors") or {}
                if not vectors.get("model") or vectors.get("state") == "ready":
                    break
                # A recall has the server load its embedder.
                await caller.call("recall_memory", {"query": "Is it ready?"})
                await asyncio.sleep(0.1)


async def measure_throughput(stores: Stores, options: argparse.Namespace) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for transport in options.transports:
        for database in options.databases:
            for replicas in options.replicas:
                found += await _measure(stores, options, transport, database, replicas)
    print(f"\n## {options.clients} clients at once, {options.messages:,} messages in scope\n")
    print(table(HEADER, [_row(each) for each in found]))
    print()
    print(table(KIND_HEADER, [_kind_row(each) for each in found if each["server"] != "no-op"]))
    for text, count in sorted({pair for each in found for pair in each["texts"].items()}):
        print(f"{count} x {text}")
    return found


async def _measure(
    stores: Stores, options: argparse.Namespace, transport: Any, database: Any, replicas: int
) -> list[dict[str, Any]]:
    store = await stores.new(database)
    await fill(store, options)
    settings = {EMBEDDER_SETTING: options.embedder}
    launches = launches_of(store, transport, replicas, options.workers, **settings)
    async with (
        connected(transport, launches, options.clients, store.postgres) as ours,
        connected(transport, [noop(store.folder)], options.clients) as idle,
    ):
        await until_ready(ours, replicas)
        loaded = {"layerlore": Loaded(ours, options.mix), "no-op": Loaded(idle, NOTHING)}
        for each in loaded.values():
            await each.run(min(_WARM_SECONDS, options.seconds), counted=False)
        for number in range(options.rounds):
            # The order turns round, so that neither always runs behind the other.
            for each in list(loaded.values())[:: -1 if number % 2 else 1]:
                await each.run(options.seconds)
    sdk = loaded["no-op"].cpu_ms()[0]
    about = {"transport": transport, "database": database, "servers": replicas}
    return [
        {"server": name, **about, "of_noop": each.per_second / loaded["no-op"].per_second, **_figures(each, sdk)}
        for name, each in loaded.items()
    ]


def _figures(loaded: Loaded, sdk: float) -> dict[str, Any]:
    servers, threads, postgres = loaded.cpu_ms()
    tally = loaded.tally
    return {
        "per_second": loaded.per_second,
        **{f"p{share}_ms": tally.ms(share / 100) for share in (50, 95, 99)},
        "errors": tally.error_count,
        "busy": tally.outcomes["busy"],
        "resident_mb": loaded.resident_mb,
        # The no-op server is the SDK and nothing else; Postgres has processes of its own, SQLite threads of ours, which
        # bear no names where a host launched the server.
        "cpu_ms": {"sdk": sdk, "ours": max(0.0, servers - threads - sdk), "database": threads + postgres or math.nan},
        "kinds": {kind: [tally.ms(0.5, kind), tally.ms(0.95, kind)] for kind in tally.seconds},
        "texts": dict(tally.errors),
    }


def _row(found: Mapping[str, Any]) -> list[str]:
    cpu = [figure(found["cpu_ms"][part]) for part in ("sdk", "ours", "database")]
    return [
        *(str(found[name]) for name in ("server", "transport", "database", "servers")),
        figure(found["per_second"], 0),
        figure(found["of_noop"]),
        *(figure(found[f"p{share}_ms"], 1) for share in (50, 95, 99)),
        *(str(found[name]) for name in ("errors", "busy")),
        figure(found["resident_mb"], 0),
        *cpu,
    ]


def _kind_row(found: Mapping[str, Any]) -> list[str]:
    cells = [found["kinds"].get(kind, (float("nan"), float("nan"))) for kind in DEFAULT_MIX]
    return [
        *(str(found[name]) for name in ("server", "transport", "database", "servers")),
        *(f"{figure(p50, 1)} / {figure(p95, 1)}" for p50, p95 in cells),
    ]
