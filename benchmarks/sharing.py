"""What hosts of one machine wait and pay for when they share a server: ``python -m benchmarks.sharing``, see README.md."""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import psutil

from benchmarks.metrics import median
from benchmarks.servers import Launch, noop, ours, over_stdio
from benchmarks.starts import first_answers
from benchmarks.tables import figure, table, verdict, write_json
from layerlore.server.relay.server_query import ask, find_servers

HEADER = ("what", "measured", "of the no-op's", "expected", "verdict")
# Ratios to the no-op server, milliseconds and megabytes.
TOOLS_RATIO, RECALL_RATIO, HOSTS_MB, CLIENT_MB, COMMAND_MS = 0.15, 0.25, 450.0, 15.0, 100.0
HOSTS = 10


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing", description=__doc__)
    parser.add_argument("--starts", type=int, default=9, help="starts of each server (default: 9)")
    parser.add_argument("--hosts", type=int, default=HOSTS, help="hosts at once (default: 10)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="layerlore-") as name:
        figures = anyio.run(_measure, options, Path(name))
    print(table(HEADER, _rows(figures, options.hosts)))
    write_json(options.json, figures)


async def _measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    shared, idle = ours(folder, LOCAL__SHARE="true", LOCAL__IDLE_MINUTES="5"), noop(folder)
    async with over_stdio(shared, mode="legacy") as first, _ended(folder):
        await first.call("add_messages", messages=[{"role": "user", "content": "I live in Rome."}], thread_id="home")
        await _recall_by_meaning(first.call)
        waits = await _starts(options.starts, shared, idle)
        memory = await _memory(options.hosts, shared, folder)
        return {**waits, **memory, "command": _command(options.starts, shared)}


async def _recall_by_meaning(call: Callable[..., Any]) -> None:
    """Return once the embedder is loaded and what is stored has its vector."""
    while (await call("memory_status"))["vectors"]["state"] != "ready":
        await call("recall_memory", query="Where do I live?")


async def _starts(count: int, shared: Launch, idle: Launch) -> dict[str, Any]:
    """The medians of starts in turn, in seconds; the first of each compiles byte code."""
    found: dict[str, list[tuple[float, float]]] = {"shared": [], "noop": []}
    for number in range(count + 1):
        for name, launch, tool in (("shared", shared, "recall_memory"), ("noop", idle, "noop")):
            took = await first_answers(launch, tool)
            if number:
                found[name].append(took)
    names = ("tools", "first_call")
    return {
        name: {each: median(took[at] for took in all_) for at, each in enumerate(names)} for name, all_ in found.items()
    }


async def _memory(hosts: int, shared: Launch, folder: Path) -> dict[str, float]:
    """Megabytes that the server and its clients hold: resident, where what they share counts in each."""
    async with contextlib.AsyncExitStack() as connected:
        clients = [await connected.enter_async_context(over_stdio(shared, mode="legacy")) for _ in range(hosts)]
        for client in clients:
            await client.call("recall_memory", query="Where do I live?")
        ((_, told),) = find_servers(str(folder))
        server = psutil.Process(int(str(told["pid"]))).memory_info().rss / 2**20
        each = [client.server.resident_mb() for client in clients]
    return {"server_mb": server, "client_mb": max(each), "hosts_mb": server + sum(each)}


def _command(count: int, shared: Launch) -> dict[str, float]:
    """Seconds of ``layerlore recall``, and of an interpreter that does nothing."""
    commands = {"recall": [*shared.stdio, "recall", "Where do I live?"], "nothing": [sys.executable, "-c", "pass"]}
    found: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(count + 1):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run(command, env=shared.environment, check=True, stdout=subprocess.DEVNULL)
            if number:
                found[name].append(time.perf_counter() - began)
    return {name: median(took) for name, took in found.items()}


@contextlib.asynccontextmanager
async def _ended(folder: Path) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for base, _ in list(find_servers(str(folder))):
            with contextlib.suppress(OSError, json.JSONDecodeError):
                ask(base, "stop")


def _rows(found: dict[str, Any], hosts: int) -> Iterator[list[str]]:
    for name, text, most in (
        ("tools", "spawn to tools/list, warm", TOOLS_RATIO),
        ("first_call", "spawn to a first recall, warm", RECALL_RATIO),
    ):
        took, idle = found["shared"][name], found["noop"][name]
        yield [text, f"{took * 1000:.0f} ms", figure(took / idle), f"{most:g}x", verdict(took / idle <= most)]
    for name, text, most in (
        ("hosts_mb", f"{hosts} hosts and their server, resident", HOSTS_MB * hosts / HOSTS),
        ("client_mb", "a host's client, resident", CLIENT_MB),
        ("server_mb", "the server alone, resident", 230.0),
    ):
        yield [text, f"{found[name]:.0f} MB", "-", f"{most:g} MB", verdict(found[name] <= most)]
    took = found["command"]["recall"] * 1000
    beside = f"{took:.0f} ms, python -c pass {found['command']['nothing'] * 1000:.0f}"
    yield ["layerlore recall, warm", beside, "-", f"{COMMAND_MS:g} ms", verdict(took <= COMMAND_MS)]


if __name__ == "__main__":
    main()
