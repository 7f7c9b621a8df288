"""Recall in a store that others have filled, beside a store that has the same messages in scope and no others."""

import argparse
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from benchmarks.call_rounds import Contender, Timed, alternate
from benchmarks.embedders import EMBEDDER_SETTING, chosen
from benchmarks.filling import Pool, opened
from benchmarks.load.fleet import Store, Stores, launches_of, over_http
from benchmarks.load.throughput import until_ready
from benchmarks.load.wire import Caller
from benchmarks.sample_text import SampleText
from benchmarks.servers import Server
from benchmarks.tables import figure, table, verdict

MOST_TIMES = 1.2
HEADER = (
    *("database", "messages", "filled a second", "recall p50 ms", "p95", "CPU ms", "alone: p50 ms", "p95", "CPU ms"),
    *("times p50", "times p95", "expected", ""),
)
_CALLS = 10
# A store that is filled at once would be observed for minutes while recalls are timed.
_PUT_OFF = {"OBSERVATION__MESSAGE_TOKENS": "2000000", "OBSERVATION__STAND_IN": "10"}


async def measure_million(stores: Stores, options: argparse.Namespace) -> list[dict[str, Any]]:
    found = [await _measure(stores, options, database) for database in options.databases]
    print(f"\n## Recall among {options.in_scope:,} messages, in a store of {options.million:,}\n")
    print(table(HEADER, map(_row, found)))
    return found


async def _measure(stores: Stores, options: argparse.Namespace, database: Any) -> dict[str, Any]:
    small, large = await stores.new(database), await stores.new(database)
    await _fill(small, options, 0)
    began = time.perf_counter()
    await _fill(large, options, options.million - options.in_scope)
    filled = options.million / (time.perf_counter() - began)
    print(f"{database}: {filled:,.0f} messages a second filled in", flush=True)
    text = SampleText(1)
    async with contextlib.AsyncExitStack() as running:
        contenders = {}
        for name, store in (("small", small), ("large", large)):
            launches = launches_of(store, "http", 1, **{EMBEDDER_SETTING: options.embedder}, **_PUT_OFF)
            fleet = await running.enter_async_context(over_http(launches, 1, store.postgres))
            await until_ready(fleet, 1)
            contenders[name] = Contender(_recall(fleet.callers[0], text), Server(fleet.processes[0]))
        timed = await alternate(contenders, rounds=options.recall_rounds, calls=_CALLS)
    return _figures(database, options, filled, timed)


async def _fill(store: Store, options: argparse.Namespace, others: int) -> None:
    """The messages in scope, and those of others: each of them has as many."""
    embedder = chosen(options.embedder)
    pool = Pool(embedder)
    async with opened(store.folder, store.url, embedder) as filled:
        await filled.fill("default", "filled", pool.drawn(options.in_scope))
        for number in range(0, others, options.in_scope):
            count = min(options.in_scope, others - number)
            await filled.fill(f"other-{number}", "filled", pool.drawn(count))


def _recall(caller: Caller, text: SampleText) -> Callable[[], Awaitable[object]]:
    async def recall() -> None:
        answer = await caller.call("recall_memory", {"query": text.question()})
        if answer.outcome != "answered":
            raise RuntimeError(f"recall: {answer.text}")

    return recall


def _figures(database: str, options: argparse.Namespace, filled: float, timed: Mapping[str, Timed]) -> dict[str, Any]:
    times = {share: timed["large"].ms(share) / timed["small"].ms(share) for share in (0.5, 0.95)}
    faults = []
    if times[0.5] > MOST_TIMES and not options.quick:
        faults.append(f"{database}: recall takes {times[0.5]:.2f} times as long in a store of {options.million:,}")
    return {
        "database": database,
        "messages": options.million,
        "filled_per_second": filled,
        **{
            name: {"p50_ms": each.ms(0.5), "p95_ms": each.ms(0.95), "cpu_ms": each.cpu_ms_per_call}
            for name, each in timed.items()
        },
        "times_p50": times[0.5],
        "times_p95": times[0.95],
        "faults": faults,
    }


def _row(found: Mapping[str, Any]) -> list[str]:
    return [
        found["database"],
        f"{found['messages']:,}",
        figure(found["filled_per_second"], 0),
        *(figure(found[name][each], 1) for name in ("large", "small") for each in ("p50_ms", "p95_ms", "cpu_ms")),
        figure(found["times_p50"]),
        figure(found["times_p95"]),
        f"{MOST_TIMES:g}x",
        verdict(found["times_p50"] <= MOST_TIMES),
    ]
