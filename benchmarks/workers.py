"""What more workers of one server bring: ``python -m benchmarks.workers``, see README.md."""

import argparse
import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import psutil
from mcp import Client

from benchmarks.embedders import EMBEDDER_SETTING, EMBEDDERS, chosen
from benchmarks.filling import Pool, opened
from benchmarks.mixed_calls import Crowd, in_turn, mixing
from benchmarks.sample_text import SampleText
from benchmarks.servers import CALL_SECONDS, Connection, Launch, Server, http_server, noop, ours
from benchmarks.tables import figure, table, write_json

THREADS = 20
HEADER = ("server", "workers", "calls/s", "p50 ms", "p95 ms", "server CPU ms", "client CPU ms", "RSS MB")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    report = anyio.run(_measure, options)
    write_json(options.json, report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2], help="how many, each in turn (default: 1 2)")
    parser.add_argument("--messages", type=int, default=1_000, help="messages in scope (default: 1,000)")
    parser.add_argument("--embedder", default="use", help=f"{EMBEDDERS} (default: use)")
    parser.add_argument("--clients", type=int, default=8, help="clients at once (default: 8)")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of each server (default: 6)")
    parser.add_argument("--calls", type=int, default=60, help="calls of each client a round (default: 60)")
    parser.add_argument("--folder", type=Path, help="put the store here: on the disk to be measured")
    parser.add_argument("--database", default="", help="postgresql://...; without it a new SQLite file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


@dataclass(frozen=True, slots=True)
class Family(Server):
    """A server's process and those that it has started, together."""

    def _processes(self) -> list[psutil.Process]:
        return [self.child, *self.child.children()]

    def cpu_seconds(self) -> float:
        return sum(Server(each).cpu_seconds() for each in self._processes())

    def resident_mb(self) -> float:
        """What they share is counted once: by its share in each of them."""
        return sum(each.memory_full_info().pss for each in self._processes()) / 2**20


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="layerlore-workers-", dir=options.folder) as name:
        folder = Path(name)
        await _fill(options, folder)
        launch = ours(
            folder,
            resource=folder.name,
            database=options.database,
            **{EMBEDDER_SETTING: options.embedder},
        )
        async with contextlib.AsyncExitStack() as running:
            crowds = {
                str(workers): await _crowd(running, _of(launch, workers), options.clients)
                for workers in options.workers
            }
            crowds["no-op"] = await _crowd(running, noop(folder), options.clients)
            await in_turn(list(crowds.values()), rounds=options.rounds, calls=options.calls)
            found = {name: _figures(crowd) for name, crowd in crowds.items()}
    _show(found, options)
    return {"workers": found}


async def _fill(options: argparse.Namespace, folder: Path) -> None:
    pool = Pool(chosen(options.embedder))
    async with opened(folder, options.database, chosen(options.embedder)) as store:
        for number in range(THREADS):
            await store.fill(folder.name, f"thread-{number}", pool.drawn(-(-options.messages // THREADS)))


def _of(launch: Launch, workers: int) -> Launch:
    *program, port = launch.http
    return replace(launch, http=[*program, "--workers", str(workers), port])


async def _crowd(running: contextlib.AsyncExitStack, launch: Launch, clients: int) -> Crowd:
    url, server = await running.enter_async_context(http_server(launch))
    text = SampleText(1)
    connections = [
        Connection(
            await running.enter_async_context(Client(url, read_timeout_seconds=CALL_SECONDS)), Family(server.child), 0.0
        )
        for _ in range(clients)
    ]
    if launch.name == "no-op":
        return Crowd([_idling(each, text) for each in connections], connections[0].server)
    return Crowd([mixing(each, text, at, THREADS) for at, each in enumerate(connections)], connections[0].server)


def _idling(connection: Connection, text: SampleText) -> Any:
    async def act(_: int) -> None:
        await connection.call("noop", text=text.text())

    return act


def _figures(crowd: Crowd) -> dict[str, float]:
    calls = len(crowd.seconds)
    return {
        "per_second": crowd.per_second,
        "p50_ms": crowd.ms(0.5),
        "p95_ms": crowd.ms(0.95),
        "server_cpu_ms": crowd.server_cpu_seconds / calls * 1000,
        "client_cpu_ms": crowd.client_cpu_seconds / calls * 1000,
        "resident_mb": crowd.server.resident_mb(),
    }


def _show(found: dict[str, dict[str, float]], options: argparse.Namespace) -> None:
    rows = [
        [*(("no-op", "1") if name == "no-op" else ("layerlore", name)), *map(figure, figures.values())]
        for name, figures in found.items()
    ]
    print(f"\n## {options.clients} clients at once, {options.messages:,} messages\n\n{table(HEADER, rows)}")
    first, *others = (str(workers) for workers in options.workers)
    for more in others:
        gain = found[more]["per_second"] / found[first]["per_second"]
        print(f"\n{more} workers / {first}: {gain:.2f} calls a second")


if __name__ == "__main__":
    main()
