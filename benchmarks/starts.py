"""How long a server takes from its spawn to its first answers, ours and the no-op one in turn."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.metrics import median
from benchmarks.servers import Launch, over_stdio


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
