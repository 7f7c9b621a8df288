"""Five times what a server bears, from 900 clients: whether its queues stay bounded, what it refuses, what it loses, and how
soon it is well again. Each client is a tenant of its own, so that no limit of a single tenant helps the server.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.embedders import EMBEDDER_SETTING
from benchmarks.load.fleet import Fleet, Store, Stores, launches_of, over_http
from benchmarks.load.mix import Calls, Tally, call_until, find_lost, names
from benchmarks.load.wire import Caller
from benchmarks.metrics import percentile
from benchmarks.tables import figure, table

TIMES = 5
RECOVERED_SECONDS = 2.0
MOST_MB = 150.0
"""How much a server may grow: what 900 clients have under way, and not what they would like to have."""
LONGEST_SECONDS = 10.0
"""A call that is answered later than this was in no bounded queue: by default one waits its turn for 4 s."""
HEADER = (
    *("database", "servers", "bears", "sent/s", "answered/s", "busy", "errors", "p50 ms", "p99 ms", "longest s"),
    *("refused p50 ms", "retry after s", "acknowledged", "lost", "MB more", "recovered s"),
)
_PROGRAM = Path(__file__).parents[1] / "tenant_server.py"
_PROBE_SECONDS = 0.1
_PATIENCE = 60.0
_TEXTS = 10
_TRACE = "Traceback (most recent call last)"


@dataclass(slots=True)
class Memory:
    """The most that a fleet has had resident since, in MB."""

    fleet: Fleet
    before: float = 0.0
    most: float = 0.0

    async def watch(self) -> None:
        self.before = self.most = self.fleet.resident_mb()
        while True:
            await asyncio.sleep(0.5)
            self.most = max(self.most, self.fleet.resident_mb())


@dataclass(slots=True)
class Overload:
    """What came of it. ``recovered``: seconds until calls took no longer than before."""

    bears: float
    offered: float
    tally: Tally = field(default_factory=Tally)
    wall: float = 0.0
    more_mb: float = 0.0
    recovered: float = 0.0
    lost: list[str] = field(default_factory=list)
    traces: int = 0

    @property
    def sent(self) -> int:
        return self.tally.outcomes.total()

    @property
    def longest(self) -> float:
        return max([*self.tally.all_seconds, *self.tally.refusals], default=0.0)


async def measure_overload(stores: Stores, options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for database in options.databases:
        for replicas in options.replicas:
            store = await stores.new(database)
            result = await _overload(store, replicas, options)
            found.append(_figures(store, replicas, result, options))
    print(f"\n## {TIMES} times what they bear, {options.overload_clients} clients, {options.overload_seconds:g} s\n")
    print(table(HEADER, map(_row, found)))
    for each in found:
        for text, count in Counter(each["texts"]).most_common(_TEXTS):
            print(f"{each['database']}, {each['servers']}: {count} x {text}")
    return found


async def _overload(store: Store, replicas: int, options: argparse.Namespace) -> Overload:
    clients = options.overload_clients
    settings = {EMBEDDER_SETTING: options.embedder}
    launches = [
        replace(launch, http=[sys.executable, str(_PROGRAM)])
        for launch in launches_of(store, "http", replicas, **settings)
    ]
    tenants = list(names("crowd", clients))
    tokens = [f"tenant-{name}.1" for name in tenants]
    async with over_http(launches, clients, store.postgres, tokens) as fleet:
        calls = [Calls(name, options.mix) for name in tenants]
        tally = Tally()
        usual = await _warm_up(fleet, calls, tally, options)
        memory = Memory(fleet)
        watching = asyncio.create_task(memory.watch())
        result = Overload(usual.bears, TIMES * usual.bears)
        # What was stored before must be there afterwards, too.
        result.tally.acknowledged = tally.acknowledged
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number, (caller, each) in enumerate(zip(fleet.callers, calls, strict=True)):
                first = began + number / result.offered
                tasks.create_task(
                    _call_at_times(
                        caller, each, result.tally, first, clients / result.offered, began + options.overload_seconds
                    )
                )
            tasks.create_task(_measure_recovery(fleet, calls, usual, result, began + options.overload_seconds))
        watching.cancel()
        result.wall = options.overload_seconds
        result.more_mb = memory.most - memory.before
        result.lost = await find_lost(fleet.callers, calls, result.tally)
    result.traces = sum(launch.log.read_text(encoding="utf-8").count(_TRACE) for launch in launches)
    return result


@dataclass(frozen=True, slots=True)
class Usual:
    """Calls a second that the servers bear, and the longest of the usual waits by kind, in seconds."""

    bears: float
    longest: dict[str, float]


async def _warm_up(fleet: Fleet, calls: list[Calls], tally: Tally, options: argparse.Namespace) -> Usual:
    """A few clients as fast as they can, and then one alone."""
    few = list(zip(fleet.callers, calls, strict=True))[: options.clients]
    first = Tally()
    for seconds, counted in ((options.seconds, first), (options.seconds, tally)):
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for caller, each in few:
                tasks.create_task(call_until(caller, each, counted, began + seconds))
    for thread, ids in first.acknowledged.items():
        tally.acknowledged.setdefault(thread, []).extend(ids)
    bears = tally.answered / options.seconds
    # As long as the slowest of many beside eight others is what a caller is used to.
    return Usual(bears, {kind: percentile(seconds, 0.99) for kind, seconds in tally.seconds.items()})


async def _call_at_times(caller: Caller, calls: Calls, tally: Tally, first: float, every: float, end: float) -> None:
    """A client that calls at its times, whatever the server says. What it could not send in time, it leaves out."""
    due = first
    while due < end:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        call = calls.next()
        tally.add(call, await caller.call(call.tool, call.arguments), calls)
        due = max(due + every, time.perf_counter())


async def _measure_recovery(fleet: Fleet, calls: list[Calls], usual: Usual, result: Overload, end: float) -> None:
    """Call by call after the end, until every kind took no longer than usual."""
    await asyncio.sleep(max(0.0, end - time.perf_counter()))
    # The clients' own connections may still wait for their answers.
    caller = fleet.spare
    assert caller is not None
    left = set(usual.longest)
    try:
        while left and time.perf_counter() - end < _PATIENCE:
            call = calls[-1].next()
            answer = await caller.call(call.tool, call.arguments)
            result.tally.add(call, answer, calls[-1])
            if answer.outcome == "answered" and answer.seconds <= usual.longest.get(call.kind, 0.0):
                left.discard(call.kind)
            await asyncio.sleep(_PROBE_SECONDS)
    finally:
        await caller.close()
    result.recovered = time.perf_counter() - end


def _figures(store: Store, servers: int, result: Overload, options: argparse.Namespace) -> dict[str, Any]:
    tally = result.tally
    about = {"database": store.database, "servers": servers}
    found = {
        **about,
        "bears": result.bears,
        "sent_per_second": result.sent / result.wall,
        "answered_per_second": tally.answered / result.wall,
        "busy": tally.outcomes["busy"],
        "errors": tally.error_count,
        "p50_ms": tally.ms(0.5),
        "p99_ms": tally.ms(0.99),
        "longest_s": result.longest,
        "refused_p50_ms": percentile(tally.refusals, 0.5) * 1000,
        "retry_after_s": percentile(tally.retry_after, 0.5),
        "acknowledged": sum(map(len, tally.acknowledged.values())),
        "lost": len(result.lost),
        "more_mb": result.more_mb,
        "recovered_s": result.recovered,
        "traces": result.traces,
        "texts": dict(tally.errors),
    }
    return {**found, "faults": [f"{store.database}, {servers}: {fault}" for fault in _faults(found, tally, options)]}


def _faults(found: dict[str, Any], tally: Tally, options: argparse.Namespace) -> list[str]:
    limits: dict[str, float] = {"lost": 0, "errors": 0, "traces": 0}
    # A few clients on a busy machine say nothing about times and sizes.
    if not options.quick:
        limits |= {"longest_s": LONGEST_SECONDS, "more_mb": MOST_MB, "recovered_s": RECOVERED_SECONDS}
    faults = [
        f"{name} is {found[name]:g}, at most {most:g} is right" for name, most in limits.items() if found[name] > most
    ]
    if silent := tally.retry_after.count(0.0):
        faults.append(f"{silent} refusals do not say when to try again")
    return faults


def _row(found: dict[str, Any]) -> list[str]:
    return [
        found["database"],
        str(found["servers"]),
        *(figure(found[name], 0) for name in ("bears", "sent_per_second", "answered_per_second")),
        *(str(found[name]) for name in ("busy", "errors")),
        *(figure(found[name], 0) for name in ("p50_ms", "p99_ms")),
        figure(found["longest_s"], 1),
        figure(found["refused_p50_ms"], 0),
        figure(found["retry_after_s"], 1),
        *(str(found[name]) for name in ("acknowledged", "lost")),
        figure(found["more_mb"], 0),
        figure(found["recovered_s"], 1),
    ]
