"""How long a server takes from its spawn to its first answers, ours and the no-op one in turn; also as a program:
``python -m benchmarks.starts``, see README.md."""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from benchmarks.metrics import median
from benchmarks.servers import START_SECONDS, Launch, noop, ours, over_stdio
from benchmarks.tables import figure, table, verdict, write_json

FIRST_CALLS: dict[str, dict[str, Any]] = {
    "noop": {"text": "nothing"},
    "add_messages": {"messages": [{"role": "user", "content": "I live in Rome."}]},
    "recall_memory": {"query": "Where do I live?"},
}
EXPECTED = {"add_messages": 2.0, "recall_memory": 3.0}
HEADER = ("first call", "at once", "to its answer, ms", "slowest", "of the no-op server's", "expected", "verdict")
_LONGEST_ANSWER = 2**20


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the spawn to each answer, the CPU seconds used by then, and the resident memory in MB."""

    initialize: float
    tools: float
    first_call: float
    cpu: float
    resident_mb: float


async def starts(launches: Sequence[tuple[Launch, str, dict[str, Any]]], count: int) -> dict[str, Start]:
    """The medians of ``count`` starts each, in turn, after one each that compiles byte code and is not counted.

    Each launch comes with the first tool to call and its arguments.
    """
    measured: dict[str, list[Start]] = {launch.name: [] for launch, _, _ in launches}
    for number in range(count + 1):
        for launch, tool, arguments in launches:
            start = await _start(launch, tool, arguments)
            if number:
                measured[launch.name].append(start)
    return {
        name: Start(
            median(each.initialize for each in found),
            median(each.tools for each in found),
            median(each.first_call for each in found),
            median(each.cpu for each in found),
            median(each.resident_mb for each in found),
        )
        for name, found in measured.items()
    }


async def _start(launch: Launch, tool: str, arguments: dict[str, Any]) -> Start:
    spawned = time.perf_counter()
    async with over_stdio(launch, mode="legacy") as connection:
        await connection.client.list_tools()
        tools = time.perf_counter() - spawned
        await connection.call(tool, **arguments)
        first_call = time.perf_counter() - spawned
        server = connection.server
        return Start(connection.connected, tools, first_call, server.cpu_seconds(), server.resident_mb())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starts", description=__doc__)
    parser.add_argument("--starts", type=int, default=9, help="rounds of each first call (default: 9)")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 5], help="processes at once (default: 1 5)")
    parser.add_argument("--folder", type=Path, help="put the store here: on the disk to be measured")
    parser.add_argument("--new", action="store_true", help="each round on a store of its own that is not there yet")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args(arguments)
    figures = [found for at_once in options.at_once for found in anyio.run(_first_calls, options, at_once)]
    print(table(HEADER, map(_row, figures)))
    write_json(options.json, figures)


async def _first_calls(options: argparse.Namespace, at_once: int) -> list[dict[str, Any]]:
    """Rounds of so many processes that start together, those of each first call in turn. The ratio is the median of the
    rounds', since what else the machine does changes from one to the next."""
    rounds: dict[str, list[list[float]]] = {tool: [] for tool in FIRST_CALLS}
    with tempfile.TemporaryDirectory(prefix="layerlore-starts-", dir=options.folder) as name:
        for number in range(options.starts + 1):
            folder = Path(name, str(number if options.new else 0))
            folder.mkdir(exist_ok=True)
            for tool in FIRST_CALLS:
                took = await _together(noop(folder) if tool == "noop" else ours(folder), tool, at_once)
                if number:  # the first compiles byte code
                    rounds[tool].append(took)
    idle = [median(took) for took in rounds["noop"]]
    return [
        {
            "tool": tool,
            "at_once": at_once,
            "seconds": median(each for took in found for each in took),
            "slowest": max(each for took in found for each in took),
            "ratio": median(median(took) / other for took, other in zip(found, idle, strict=True)),
        }
        for tool, found in rounds.items()
    ]


async def _together(launch: Launch, tool: str, at_once: int) -> list[float]:
    took: list[float] = []

    async def one() -> None:
        took.append((await first_answers(launch, tool))[1])

    async with anyio.create_task_group() as tasks:
        for _ in range(at_once):
            tasks.start_soon(one)
    return took


async def first_answers(launch: Launch, tool: str) -> tuple[float, float]:
    """Seconds from the spawn to the list of tools and to the answer of the first call, asked in plain lines: what a client
    computes would be counted as well."""
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "starts", "version": "1"}}
    call = {"name": tool, "arguments": FIRST_CALLS[tool]}
    spawned = time.perf_counter()
    took: list[float] = []
    with launch.log.open("a", encoding="utf-8") as log:
        process = await anyio.open_process(
            launch.stdio, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=launch.environment
        )
    async with process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        with anyio.fail_after(START_SECONDS):
            for id_, method, params in ((1, "initialize", client), (2, "tools/list", {}), (3, "tools/call", call)):
                request = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
                await process.stdin.send(json.dumps(request).encode() + b"\n")
                answer = json.loads(await lines.receive_until(b"\n", _LONGEST_ANSWER))
                took.append(time.perf_counter() - spawned)
                if id_ == 1:
                    await process.stdin.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        if answer["result"].get("isError"):
            raise RuntimeError(f"{launch.name}: {answer}")
        await process.stdin.aclose()
        await process.wait()
    return took[1], took[2]


def _row(found: dict[str, Any]) -> list[str]:
    expected = EXPECTED.get(found["tool"])
    return [
        *(found["tool"], str(found["at_once"])),
        *(figure(found[each] * 1000, 0) for each in ("seconds", "slowest")),
        figure(found["ratio"]),
        f"{expected:g}x" if expected else "-",
        verdict(found["ratio"] <= expected if expected else None),
    ]


if __name__ == "__main__":
    main()
