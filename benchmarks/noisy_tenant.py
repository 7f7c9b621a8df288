"""What quiet tenants notice of a noisy one: their latency beside a tenant that calls 20 times as often as it may.

Quiet tenants call over HTTP at times that do not depend on the answers; a call's time counts from when it was due. Rounds
with and without the noise take turns.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.metrics import percentile
from benchmarks.servers import Launch, ToolFailed, call, http_server, ours
from benchmarks.tables import figure, table, verdict, write_json
from layerlore.server.settings.http import RateSettings

DEFAULTS = RateSettings()
PROGRAM = Path(__file__).with_name("tenant_server.py")
MOST_TIMES = 2.0
HEADER = ("quiet tenants beside", "calls", "refused", "p50 ms", "p95 ms", "p99 ms", "p95 / idle", "expected", "")
NOISE_HEADER = ("the noisy tenant", "a second", "answered", "refused", "HTTP 429", "dropped", "cut off", "failed")
QUESTIONS = ("Who likes the green teapot?", "When did we meet at the harbour?", "What about the broken window?")


@dataclass(slots=True)
class Quiet:
    """Seconds that each call of the quiet tenants took, and how many of them were refused."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0

    def add(self, more: "Quiet") -> None:
        self.seconds += more.seconds
        self.refused += more.refused

    def ms(self, share: float) -> float:
        return percentile(self.seconds, share) * 1000


async def calling(client: Client, rate: float, seconds: float, offset: float, quiet: Quiet) -> None:
    """An add, a page and a recall by turns, each at its time."""
    began = time.perf_counter() + offset

    async def one(number: int, due: float) -> None:
        try:
            await act(number)
        except ToolFailed as refused:
            if "too many" not in str(refused):
                raise
            quiet.refused += 1
        quiet.seconds.append(time.perf_counter() - due)

    async def act(number: int) -> None:
        thread = f"thread {number // 3 % 5}"
        if number % 3 == 0:
            text = f"Number {number}: the green teapot stands at the harbour, beside the broken window."
            await call(client, "add_messages", thread_id=thread, messages=[{"role": "user", "content": text}])
        elif number % 3 == 1:
            await call(client, "get_messages", thread_id="thread 0", limit=20)
        else:
            await call(client, "recall_memory", query=QUESTIONS[number // 3 % 3])

    async with asyncio.TaskGroup() as tasks:
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.create_task(one(number, due))


async def measured(clients: list[Client], options: argparse.Namespace) -> Quiet:
    """One round of the quiet tenants."""
    quiet = Quiet()
    apart = 1 / options.rate / len(clients)
    async with asyncio.TaskGroup() as tasks:
        for at, client in enumerate(clients):
            tasks.create_task(calling(client, options.rate, options.seconds, at * apart, quiet))
    return quiet


async def noise(url: str, manner: str, options: argparse.Namespace, seconds: float) -> Any:
    """Start the noisy tenant. Its ``communicate`` gives what came of its calls."""
    command = [sys.executable, "-m", "benchmarks.noisy_caller", url, "tenant-noisy"]
    settings = [options.times * options.allowed, options.connections, seconds, manner]
    return await asyncio.create_subprocess_exec(
        *command, *map(str, settings), cwd=Path(__file__).parents[1], stdout=asyncio.subprocess.PIPE
    )


async def beside(clients: list[Client], url: str, manner: str, options: argparse.Namespace) -> tuple[Quiet, Any]:
    """One round beside the noise, which begins a little earlier and ends later."""
    started = await noise(url, manner, options, options.lead + options.seconds + 1)
    try:
        await asyncio.sleep(options.lead)
        quiet = await measured(clients, options)
        printed, _ = await started.communicate()
    except BaseException:
        started.kill()
        raise
    return quiet, json.loads(printed)


def launch(folder: Path, options: argparse.Namespace) -> Launch:
    rates = {f"RATES__{name.upper()}": value for name, _, value in (each.partition("=") for each in options.rates)}
    started = ours(folder, database=options.database, **rates, RATES__TENANT_CALLS_PER_SECOND=str(options.allowed))
    return replace(started, http=[sys.executable, str(PROGRAM)])


async def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    idle, noisy, counts = Quiet(), {manner: Quiet() for manner in ("closed", "open")}, dict[str, Any]()
    async with http_server(launch(folder, options)) as (url, server), AsyncExitStack() as opened:
        clients = []
        for number in range(options.quiet):
            headers = {"Authorization": f"Bearer tenant-{number}.1"}
            http = await opened.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
            clients.append(await opened.enter_async_context(Client(streamable_http_client(url, http_client=http))))
            await call(
                clients[-1], "add_messages", thread_id="thread 0", messages=[{"role": "user", "content": "Hello"}]
            )
        await measured(clients, argparse.Namespace(**{**vars(options), "seconds": min(3.0, options.seconds)}))
        for _ in range(options.rounds):
            idle.add(await measured(clients, options))
            for manner, quiet in noisy.items():
                used = server.cpu_seconds()
                round_, counted = await beside(clients, url, manner, options)
                quiet.add(round_)
                counted["seconds"] = options.lead + options.seconds + 1
                counted["server cpu"] = server.cpu_seconds() - used
                counts[manner] = {
                    name: counts.get(manner, {}).get(name, 0) + counted.get(name, 0)
                    for name in {*counts.get(manner, {}), *counted}
                }
    return report(idle, noisy, counts, options)


def report(idle: Quiet, noisy: dict[str, Quiet], counts: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Print the tables. Returns the figures."""
    rounds = {"nobody": idle, **{f"the noisy one, {manner}": quiet for manner, quiet in noisy.items()}}
    ratios = {name: quiet.ms(0.95) / idle.ms(0.95) for name, quiet in rounds.items()}
    rows = [
        [
            name,
            str(len(quiet.seconds)),
            str(quiet.refused),
            *(figure(quiet.ms(share)) for share in (0.5, 0.95, 0.99)),
            figure(ratios[name]),
        ]
        + (["-", "-"] if quiet is idle else [f"{MOST_TIMES:.0f} times", verdict(ratios[name] <= MOST_TIMES)])
        for name, quiet in rounds.items()
    ]
    print(
        f"## Quiet tenants beside one that calls {options.times:g} times as often as it may\n\n{table(HEADER, rows)}\n"
    )
    names = ("answered", "refused", "429", "dropped", "cut off", "failed")
    sent = [
        [manner, figure(each["sent"] / each["seconds"], 0), *(figure(each.get(name, 0), 0) for name in names)]
        for manner, each in counts.items()
    ]
    print(table(NOISE_HEADER, sent))
    return {
        "quiet": {
            name: {
                "calls": len(quiet.seconds),
                "refused": quiet.refused,
                "p50_ms": quiet.ms(0.5),
                "p95_ms": quiet.ms(0.95),
                "times": ratios[name],
            }
            for name, quiet in rounds.items()
        },
        "noisy": counts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.noisy_tenant", description=__doc__)
    parser.add_argument("--quiet", type=int, default=3, help="quiet tenants")
    parser.add_argument("--rate", type=float, default=10.0, help="calls of each quiet tenant in a second")
    parser.add_argument(
        "--allowed", type=int, default=DEFAULTS.tenant_calls_per_second, help="calls a tenant may make in a second"
    )
    parser.add_argument("--times", type=float, default=20.0, help="how much more the noisy tenant calls")
    parser.add_argument("--connections", type=int, default=64, help="connections of the noisy tenant")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of each round")
    parser.add_argument("--lead", type=float, default=2.0, help="seconds by which the noise begins earlier")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", default="", help="postgresql://... instead of a new SQLite file")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rates", nargs="*", default=[], metavar="NAME=VALUE", help="more settings of [rates]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="layerlore-noisy-") as folder:
        write_json(options.json, asyncio.run(run(options, Path(folder))))


if __name__ == "__main__":
    main()
