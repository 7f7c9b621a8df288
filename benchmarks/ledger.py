"""What each part of a call costs, beside a call that does nothing: ``python -m benchmarks.ledger``, see README.md."""

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio

from benchmarks.asking import vectors_complete
from benchmarks.call_rounds import Contender, Timed, alternate
from benchmarks.cpu_parts import Spent
from benchmarks.embedders import EMBEDDER_SETTING, EMBEDDERS, chosen
from benchmarks.filling import SENTENCES, Pool, opened
from benchmarks.ledger_server import BACKGROUND
from benchmarks.sample_text import SampleText
from benchmarks.servers import Connection, Launch, Server, noop, ours, over_stdio
from benchmarks.tables import figure, table, verdict, write_json
from layerlore.storage.drivers.sqlite.driver import driver

# Adds come last: they are more messages in scope.
# A context is asked for again while nothing was stored since, and behind a commit of another process.
AFTER_COMMIT = "get_context_after_commit"
CALLS = ("get", "get_context", AFTER_COMMIT, "recall", "add")
THREADS = 20
PAGE = 20
# The whole call, times the no-op call, where it is expected: by messages in scope, or at any number of them.
EXPECTED: dict[str, dict[int, float]] = {"recall": {1_000: 4, 10_000: 6, 100_000: 18}}
EXPECTED_ANY = {"get_context": 3.0, AFTER_COMMIT: 3.0}
# What costs less than this, times the no-op call, is summed up.
_SMALL = 0.02
_REPORT_SECONDS = 10.0
_OTHERS = f"other parts, each below {_SMALL:g}"
# A store that is filled at once would be observed for minutes while calls are timed.
_PUT_OFF = {"OBSERVATION__MESSAGE_TOKENS": "2000000", "OBSERVATION__STAND_IN": "10"}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    write_json(options.json, anyio.run(_measure, options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000], help="messages in scope")
    parser.add_argument("--only", nargs="+", choices=CALLS, default=CALLS, help="these calls alone")
    parser.add_argument("--embedder", default="use", help=f"{EMBEDDERS} (default: use)")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of each call (default: 10)")
    parser.add_argument("--calls", type=int, default=20, help="calls a round (default: 20)")
    parser.add_argument(
        "--settle",
        type=float,
        default=5.0,
        help="seconds until servers have loaded what they load by and by (default: 5)",
    )
    parser.add_argument("--folder", type=Path, help="put the store here: on the disk to be measured")
    parser.add_argument("--kept", type=Path, help="a folder whose store, filled with these sizes before, is used again")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


@dataclass(frozen=True, slots=True)
class BookedServer(Server):
    """A server that books its CPU to its parts; ``seen`` is what it reported, each time that its CPU was asked for."""

    file: Path
    seen: list[Spent] = field(default_factory=list)

    def cpu_seconds(self) -> float:
        self.file.unlink(missing_ok=True)
        self.child.send_signal(signal.SIGUSR1)
        give_up = time.monotonic() + _REPORT_SECONDS
        while not self.file.exists():
            if time.monotonic() > give_up:
                raise TimeoutError("the server does not say what its parts have used")
            time.sleep(0.001)
        self.seen.append(json.loads(self.file.read_text(encoding="utf-8")))
        return sum(seconds for seconds, _ in self.seen[-1].values())

    def used(self) -> Spent:
        """What the parts used between the last two reports."""
        before, after = self.seen[-2:]
        nothing = [0.0, 0.0]
        return {
            part: [seconds - before.get(part, nothing)[0], times - before.get(part, nothing)[1]]
            for part, (seconds, times) in after.items()
        }


@dataclass(frozen=True, slots=True)
class Entry:
    """A call at a size: ``parts`` has by part the ms of CPU and how often it ran, a call; ``whole`` is what a server
    without the books used, ``noop`` the no-op server; all in ms a call."""

    call: str
    size: int
    parts: dict[str, tuple[float, float]]
    whole: float
    noop: float

    @property
    def booked(self) -> float:
        return sum(ms for ms, _ in self.parts.values())


async def _measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="layerlore-ledger-", dir=options.folder) as name:
        folder = options.kept or Path(name)
        folder.mkdir(exist_ok=True)
        await _fill(options, folder)
        entries = [entry for size in options.sizes for entry in await _measure_size(options, folder, size)]
    for call in options.only:
        _print_call(call, [entry for entry in entries if entry.call == call])
    return [
        {
            "call": entry.call,
            "messages": entry.size,
            "whole_ms": entry.whole,
            "noop_ms": entry.noop,
            "parts": {part: {"ms": ms, "times": times} for part, (ms, times) in entry.parts.items()},
        }
        for entry in entries
    ]


async def _fill(options: argparse.Namespace, folder: Path) -> None:
    """For each size a resource with so many messages, in runs of equal length in each of the threads, with vectors."""
    if (folder / "memory.db").exists():
        return
    embedder = chosen(options.embedder)
    pool = Pool(embedder, min(SENTENCES, max(options.sizes)))
    async with opened(folder, "", embedder) as store:
        for size in options.sizes:
            for number in range(THREADS):
                share = size // THREADS + (number < size % THREADS)
                await store.fill(str(size), _thread(number), pool.drawn(share))


def _thread(number: int) -> str:
    return f"thread-{number % THREADS}"


def _launch(options: argparse.Namespace, folder: Path, size: int) -> Launch:
    settings = {EMBEDDER_SETTING: options.embedder, **_PUT_OFF}
    return ours(folder, resource=str(size), **settings)


def _launch_booked(plain: Launch, file: Path) -> Launch:
    """The same server with its CPU booked to its parts; NumPy's threads as the command has them."""
    program = [sys.executable, "-m", "benchmarks.ledger_server", str(file)]
    settings = {**plain.settings, "OPENBLAS_NUM_THREADS": "1"}
    return Launch("booked", program, program, plain.log, settings)


async def _measure_size(options: argparse.Namespace, folder: Path, size: int) -> list[Entry]:
    plain, file = _launch(options, folder, size), folder / "books.json"
    async with (
        over_stdio(plain) as our,
        over_stdio(_launch_booked(plain, file)) as split,
        over_stdio(noop(folder)) as idle,
    ):
        server = BookedServer(split.server.child, file)
        text, numbers = SampleText(1), count()
        entries = []
        await vectors_complete(our)
        await anyio.sleep(options.settle)
        for call in options.only:
            for connection in (our, split):
                await vectors_complete(connection)
                if call == "get_context":
                    await _ask_for_all(connection)
            timed = await alternate(
                {
                    "ours": Contender(_call(call, our, text, numbers, folder), our.server),
                    "booked": Contender(_call(call, split, text, numbers, folder), server),
                    "no-op": Contender(_idle(idle, text), idle.server),
                },
                rounds=options.rounds,
                calls=options.calls,
            )
            entries.append(_make_entry(call, size, timed, server.used()))
        return entries


def _call(
    call: str, connection: Connection, text: SampleText, numbers: "count[int]", folder: Path
) -> Callable[[], Awaitable[Any]]:
    async def act() -> None:
        thread = _thread(next(numbers))
        if call == "add":
            await connection.call("add_messages", thread_id=thread, messages=[text.message()])
        elif call == "get":
            await connection.call("get_messages", thread_id=thread, limit=PAGE)
        elif call in ("get_context", AFTER_COMMIT):
            if call == AFTER_COMMIT:
                _commit(folder)
            await connection.call("get_context", thread_id=thread)
        else:
            await connection.call("recall_memory", query=text.question())

    return act


async def _ask_for_all(connection: Connection) -> None:
    """Ask for the context of each thread, so that what is timed was asked for before."""
    for number in range(THREADS):
        await connection.call("get_context", thread_id=_thread(number))


def _commit(folder: Path) -> None:
    """Commit what matters to nobody, as another process: all that is known of the file may be another by now."""
    with contextlib.closing(driver.connect(str(folder / "memory.db"), isolation_level=None)) as connection:
        number = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute(f"PRAGMA user_version = {(number + 1) % 1_000_000}")


def _idle(connection: Connection, text: SampleText) -> Callable[[], Awaitable[Any]]:
    async def act() -> None:
        await connection.call("noop", text=text.text())

    return act


def _make_entry(call: str, size: int, timed: Mapping[str, Timed], used: Spent) -> Entry:
    calls = len(timed["booked"].seconds)
    parts = {part: (seconds / calls * 1000, times / calls) for part, (seconds, times) in used.items()}
    return Entry(call, size, parts, timed["ours"].cpu_ms_per_call, timed["no-op"].cpu_ms_per_call)


def _print_call(call: str, entries: Sequence[Entry]) -> None:
    """A row a part, the dearest at the last size first; times the no-op call of the same run."""
    last = entries[-1]
    names = {part for entry in entries for part, (ms, _) in entry.parts.items() if ms >= _SMALL * entry.noop}
    dearest = sorted(names, key=lambda part: -last.parts.get(part, (0.0, 0.0))[0])
    ordered = [part for part in dearest if part not in BACKGROUND] + [part for part in dearest if part in BACKGROUND]
    rows = [
        [
            part,
            figure(last.parts.get(part, (0.0, 0.0))[1], 1),
            *(figure(entry.parts.get(part, (0.0, 0.0))[0] / entry.noop) for entry in entries),
        ]
        for part in ordered
    ]
    rows.append([_OTHERS, "", *(figure(_sum_others(entry, names) / entry.noop) for entry in entries)])
    rows.append(["all parts", "", *(figure(entry.booked / entry.noop) for entry in entries)])
    rows.append(["the call, without the books", "", *(figure(entry.whole / entry.noop) for entry in entries)])
    expected = [EXPECTED.get(call, {}).get(entry.size, EXPECTED_ANY.get(call)) for entry in entries]
    if any(expected):
        rows.append(["expected", "", *("-" if each is None else figure(each, 1) for each in expected)])
        held = [
            verdict(None if each is None else entry.whole <= each * entry.noop)
            for entry, each in zip(entries, expected, strict=True)
        ]
        rows.append(["verdict", "", *held])
    rows.append(["the no-op call, ms", "", *(figure(entry.noop) for entry in entries)])
    header = ["part", "a call", *(f"{entry.size:,}" for entry in entries)]
    print(f"\n## {call}: CPU, times the no-op call, by messages in scope\n\n{table(header, rows)}")


def _sum_others(entry: Entry, named: set[str]) -> float:
    return sum(ms for part, (ms, _) in entry.parts.items() if part not in named)


if __name__ == "__main__":
    main()
