"""What a call costs beside one that does nothing: ``python -m benchmarks.calls``, see README.md."""

import argparse
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio

from benchmarks.asking import Vectors, vectors_complete
from benchmarks.call_rounds import Contender, RawCommits, Timed, alternate
from benchmarks.embedders import EMBEDDER_SETTING, EMBEDDERS, chosen
from benchmarks.filling import SENTENCES, Pool, opened
from benchmarks.sample_text import SampleText
from benchmarks.servers import Connection, Launch, noop, ours, over_http, over_stdio
from benchmarks.starts import Start, starts
from benchmarks.state_calls import HEADER as STATE_HEADER
from benchmarks.state_calls import state_rows
from benchmarks.tables import figure, table, verdict, write_json
from layerlore.memory.embedding.port import Embedder

# Adds come last: they are more messages in scope.
CALLS = ("get", "recall", "add")
THREADS = 20
PAGE = 20
_POLL_SECONDS = 0.1

# What is held, against the no-op call in the same run. Recall in milliseconds, by messages in scope.
CONNECT_RATIO = 1.15
ADD_RATIO = 1.5
# The no-op call's p50, while vectors of other messages are made.
BUSY_ADD_RATIO = 3.0
GET_RATIO = 2.0
RECALL_MS = {1_000: 5.0, 10_000: 10.0, 100_000: 40.0}
# Without an embedder, and with the one that is built in.
RESIDENT_MB, RESIDENT_MB_EMBEDDING = 140.0, 230.0

CALL_HEADER = (
    *("transport", "messages", "call", "p50 ms", "p95 ms", "CPU ms", "no-op p50", "no-op p95", "no-op CPU"),
    *("ratio p50", "ratio CPU", "expected", "verdict"),
)
START_HEADER = ("server", "initialize ms", "tools/list ms", "first call ms", "CPU s", "RSS MB", "expected", "verdict")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    report = anyio.run(_measure, options)
    write_json(options.json, report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=_size, default=[1_000, 10_000, 100_000], help="messages in scope")
    parser.add_argument("--embedder", default="use", help=f"{EMBEDDERS} (default: use)")
    parser.add_argument("--transports", nargs="+", choices=["stdio", "http"], default=["stdio", "http"])
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each call (default: 20)")
    parser.add_argument("--calls", type=int, default=20, help="calls a round (default: 20)")
    parser.add_argument("--state-rounds", type=int, default=10, help="rounds of each state call (default: 10; 0: none)")
    parser.add_argument("--starts", type=int, default=15, help="starts of each server (default: 15; 0: none)")
    parser.add_argument(
        "--backlog",
        type=int,
        default=10_000,
        help="messages that get their vectors while adds are timed (default: 10,000; 0: none)",
    )
    parser.add_argument("--folder", type=Path, help="put the store here: on the disk to be measured")
    parser.add_argument("--database", default="", help="postgresql://...; without it a new SQLite file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


def _size(text: str) -> int:
    if int(text) < THREADS:
        raise argparse.ArgumentTypeError(f"{text} is too small: there are {THREADS} threads")
    return int(text)


@dataclass(slots=True)
class Bench:
    """A run: its options, the two servers' launches, what the store is filled with, and the figures so far."""

    options: argparse.Namespace
    folder: Path
    raw: RawCommits
    embedder: Embedder | None
    pool: Pool
    report: dict[str, Any] = field(default_factory=dict)
    text: SampleText = field(default_factory=lambda: SampleText(1))
    numbers: "count[int]" = field(default_factory=count)

    def ours(self, name: int | str) -> Launch:
        """Each size is a resource; all are in one store."""
        return self._ours(str(name))

    def ours_with_all_tools(self) -> Launch:
        """A resource of its own, nothing in it yet."""
        return self._ours("state", TOOLSETS="all")

    def _ours(self, name: str, **settings: str) -> Launch:
        given = {EMBEDDER_SETTING: self.options.embedder, **settings}
        return ours(self.folder, resource=self.resource(name), database=self.options.database, **given)

    def resource(self, name: str) -> str:
        """A database may hold an earlier run."""
        return f"{self.folder.name}-{name}"

    def noop(self) -> Launch:
        return noop(self.folder)


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="layerlore-calls-", dir=options.folder) as name:
        folder = Path(name)
        embedder = chosen(options.embedder)
        pool = Pool(embedder, min(SENTENCES, max(options.sizes)))
        bench = Bench(options, folder, RawCommits(folder / "raw.db"), embedder, pool)
        try:
            await _fill(bench, [(str(size), size) for size in options.sizes])
            await _measure_calls(bench)
            if options.backlog and embedder is not None:
                await _measure_beside_vectors(bench)
            if options.state_rounds:
                await _measure_state(bench)
            if options.starts:
                await _measure_starts(bench)
        finally:
            bench.raw.close()
    return bench.report


async def _fill(bench: Bench, sizes: Sequence[tuple[str, int]]) -> None:
    """For each name a resource with so many messages, in runs of equal length in each of the threads, with vectors."""
    began = time.perf_counter()
    async with opened(bench.folder, bench.options.database, bench.embedder) as store:
        for name, size in sizes:
            for number, share in enumerate(_shares(size, THREADS)):
                await store.fill(bench.resource(name), _thread(number), bench.pool.drawn(share))
    seconds, messages = time.perf_counter() - began, sum(size for _, size in sizes)
    print(f"{messages:,} messages filled in, {seconds:.1f} s", flush=True)


def _shares(whole: int, parts: int) -> list[int]:
    """So many numbers, as equal as can be, that make up the whole."""
    return [whole // parts + (number < whole % parts) for number in range(parts)]


def _thread(number: int) -> str:
    return f"thread-{number % THREADS}"


@contextlib.asynccontextmanager
async def _connected(launch: Launch, transport: str) -> AsyncIterator[Connection]:
    if transport == "stdio":
        async with over_stdio(launch) as connection:
            yield connection
    else:
        async with over_http(launch) as connections:
            yield connections[0]


async def _measure_calls(bench: Bench) -> None:
    rows, kept = [], []
    resident = 0.0
    for transport in bench.options.transports:
        for size in bench.options.sizes:
            async with (
                _connected(bench.ours(size), transport) as our,
                _connected(bench.noop(), transport) as idle,
            ):
                await _vectors_there(our, size)
                for call in CALLS:
                    timed = await _timed(bench, call, our, idle)
                    rows.append(_call_row(transport, size, call, timed))
                    kept.append(_call_figures(transport, size, call, timed))
                if transport == "stdio":
                    resident = max(resident, our.server.resident_mb())
    print(f"\n## Calls\n\n{table(CALL_HEADER, rows)}")
    bench.report["calls"] = kept
    if resident:
        bench.report["resident_mb"] = resident
        most = RESIDENT_MB if bench.options.embedder == "none" else RESIDENT_MB_EMBEDDING
        held = verdict(resident <= most)
        print(f"\nResident memory over stdio after these calls: {resident:.0f} MB; expected {most:.0f}: {held}")


async def _vectors_there(our: Connection, size: int) -> Vectors:
    """Those of the adds of an earlier part are still to be made; nothing is timed meanwhile."""
    there = await vectors_complete(our)
    if there.model and there.total < size:
        print(f"VECTORS ARE MISSING: {there.total:,} of {size:,} messages have one")
    return there


async def _timed(bench: Bench, call: str, our: Connection, idle: Connection) -> dict[str, Timed]:
    """Rounds of one of our calls and of no-op calls, which carry as much text; with adds to SQLite, of raw commits."""

    async def add() -> None:
        await our.call("add_messages", thread_id=_thread(next(bench.numbers)), messages=[bench.text.message()])

    async def get() -> None:
        await our.call("get_messages", thread_id=_thread(next(bench.numbers)), limit=PAGE)

    async def recall() -> None:
        await our.call("recall_memory", query=bench.text.question())

    async def nothing() -> None:
        await idle.call("noop", text=bench.text.text())

    async def commit() -> None:
        await bench.raw.commit(bench.text.text())

    contenders = {
        "ours": Contender({"add": add, "get": get, "recall": recall}[call], our.server),
        "no-op": Contender(nothing, idle.server),
    }
    if call == "add" and not bench.options.database:
        contenders["commit"] = Contender(commit)
    return await alternate(contenders, rounds=bench.options.rounds, calls=bench.options.calls)


def _expected(transport: str, size: int, call: str, timed: dict[str, Timed]) -> tuple[str, bool | None]:
    ours_ms, noop_ms = timed["ours"].ms(0.5), timed["no-op"].ms(0.5)
    if call == "add":
        if "commit" not in timed:
            return "-", None
        commit_ms = timed["commit"].ms(0.5)
        return f"{ADD_RATIO}x({noop_ms:.2f}+{commit_ms:.2f})", ours_ms <= ADD_RATIO * (noop_ms + commit_ms)
    if call == "get":
        return (f"{GET_RATIO:g}x", ours_ms <= GET_RATIO * noop_ms) if transport == "stdio" else ("-", None)
    most = RECALL_MS.get(size)
    return (f"{most:g} ms", ours_ms <= most) if most else ("-", None)


def _call_row(transport: str, size: int, call: str, timed: dict[str, Timed]) -> list[str]:
    mine, idle = timed["ours"], timed["no-op"]
    expected, holds = _expected(transport, size, call, timed)
    values = [each for it in (mine, idle) for each in (it.ms(0.5), it.ms(0.95), it.cpu_ms_per_call)]
    ratios = [mine.ms(0.5) / idle.ms(0.5), _ratio(mine.cpu_ms_per_call, idle.cpu_ms_per_call)]
    return [transport, f"{size:,}", call, *map(figure, values), *map(figure, ratios), expected, verdict(holds)]


def _call_figures(transport: str, size: int, call: str, timed: dict[str, Timed]) -> dict[str, Any]:
    found = {
        name: {"p50_ms": it.ms(0.5), "p95_ms": it.ms(0.95), "cpu_ms": it.cpu_ms_per_call} for name, it in timed.items()
    }
    holds = _expected(transport, size, call, timed)[1]
    return {"transport": transport, "messages": size, "call": call, "holds": holds, **found}


async def _measure_beside_vectors(bench: Bench) -> None:
    """Adds while the server makes the vectors of a backlog."""
    backlog = bench.options.backlog
    async with opened(bench.folder, bench.options.database, None) as store:
        await store.fill(bench.resource("backlog"), _thread(0), bench.pool.drawn(backlog))
    async with over_stdio(bench.ours("backlog")) as our, over_stdio(bench.noop()) as idle:
        while not (before := await _vectors_made(our)):
            await anyio.sleep(_POLL_SECONDS)
        began = time.perf_counter()
        timed = await _timed(bench, "add", our, idle)
        seconds = time.perf_counter() - began
        made = await _vectors_made(our) - before
    mine, other = timed["ours"], timed["no-op"]
    ratio = mine.ms(0.5) / other.ms(0.5)
    print(
        f"\nAdds while vectors are made: p50 {mine.ms(0.5):.2f} ms, p95 {mine.ms(0.95):.2f} ms, {mine.cpu_ms_per_call:.2f} ms "
        f"of CPU with the vectors; no-op p50 {other.ms(0.5):.2f} ms. Ratio {ratio:.1f}, expected {BUSY_ADD_RATIO:g}: "
        f"{verdict(ratio <= BUSY_ADD_RATIO)}. {made / seconds:.0f} vectors/s"
    )
    if before + made >= backlog:
        print("THE BACKLOG WAS TOO SMALL: its vectors were complete before the last add")
    bench.report["adds_beside_vectors"] = {
        "p50_ms": mine.ms(0.5),
        "p95_ms": mine.ms(0.95),
        "ratio": ratio,
        "vectors_per_second": made / seconds,
    }


async def _vectors_made(our: Connection) -> int:
    held = (await our.call("memory_status"))["vectors"]
    made: int = held["total"] - held["pending"]
    return made


async def _measure_state(bench: Bench) -> None:
    raw = None if bench.options.database else bench.raw
    async with over_stdio(bench.ours_with_all_tools()) as our, over_stdio(bench.noop()) as idle:
        rows, bench.report["state"] = await state_rows(
            our, idle, raw, rounds=bench.options.state_rounds, calls=bench.options.calls
        )
    print(f"\n## State over stdio\n\n{table(STATE_HEADER, rows)}")


def _ratio(ours_value: float, noop_value: float) -> float:
    return ours_value / noop_value if noop_value else float("nan")


async def _measure_starts(bench: Bench) -> None:
    our = (bench.ours(max(bench.options.sizes)), "recall_memory", {"query": bench.text.question()})
    idle = (bench.noop(), "noop", {"text": "nothing"})
    found = await starts([our, idle], bench.options.starts)
    mine, other = found["layerlore"], found["no-op"]
    ratio = mine.initialize / other.initialize
    rows = [
        _start_row("layerlore", mine, f"{CONNECT_RATIO}x to initialize", verdict(ratio <= CONNECT_RATIO)),
        _start_row("no-op", other, "-", "-"),
    ]
    print(f"\n## Starts (medians of {bench.options.starts})\n\n{table(START_HEADER, rows)}")
    print(f"\nOurs / no-op: initialize {ratio:.2f}, tools/list {mine.tools / other.tools:.2f}")
    bench.report["starts"] = {
        name: {each: getattr(start, each) for each in start.__slots__} for name, start in found.items()
    }


def _start_row(name: str, start: Start, expected: str, held: str) -> list[str]:
    times = [figure(seconds * 1000, 0) for seconds in (start.initialize, start.tools, start.first_call)]
    return [name, *times, figure(start.cpu), figure(start.resident_mb, 0), expected, held]


if __name__ == "__main__":
    main()
