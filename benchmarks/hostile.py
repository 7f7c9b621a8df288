"""What quiet tenants notice of a hostile one, and how much memory it makes the server take.

Three quiet tenants call over HTTP, as beside a noisy one. The hostile one asks for big answers, leaves answers unread, opens
sessions, holds connections without credentials, or stores bytes without end: a round each, and before each a round of
nobody. 60 images of 2.35 MB are stored for it by a server without limits before.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from argparse import Namespace
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.hostile_caller import IMAGES, MANNERS, added
from benchmarks.noisy_tenant import MOST_TIMES, PROGRAM, Quiet, measured
from benchmarks.servers import Launch, Server, call, http_server, ours
from benchmarks.tables import figure, table, verdict, write_json

MOST_MB = 150.0
HEADER = ("quiet tenants beside", "calls", "refused", "p50 ms", "p95 ms", "p95 / idle", "", "MB more", "")
HOSTILE_HEADER = ("the hostile tenant", "sent", "answered", "refused", "cut off", "others")
TOKEN = "tenant-hostile.1"
_FREE = ("PRINCIPAL_BYTES_PER_SECOND", "TENANT_BYTES_PER_SECOND", "PRINCIPAL_ROWS_PER_SECOND")


class Memory:
    """The most that a server has had resident, looked at while the context is entered, in MB."""

    def __init__(self, server: Server) -> None:
        self.most = self.before = server.resident_mb()
        self._server = server

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self._server.resident_mb())
            await asyncio.sleep(0.05)


def launch(folder: Path, options: Namespace, **settings: str) -> Launch:
    started = ours(folder, database=options.database, **settings)
    return replace(started, http=[sys.executable, str(PROGRAM)])


async def connected(opened: AsyncExitStack, url: str, token: str) -> Client:
    http = await opened.enter_async_context(
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)
    )
    return await opened.enter_async_context(Client(streamable_http_client(url, http_client=http)))


async def store(folder: Path, options: Namespace) -> None:
    """Give the hostile tenant its images."""
    free = {f"RATES__{name}": "0" for name in _FREE}
    async with http_server(launch(folder, options, **free)) as (url, _), AsyncExitStack() as opened:
        client = await connected(opened, url, TOKEN)
        for number in range(options.images):
            await call(client, "add_messages", **added(number))


async def beside(
    clients: list[Client], server: Server, url: str, manner: str, options: Namespace
) -> tuple[Quiet, float, dict[str, int]]:
    """One round beside the hostile one, which begins a little earlier and ends later: what the quiet ones noticed, MB by
    which the server grew, and what came of what the hostile one did."""
    command = [sys.executable, "-m", "benchmarks.hostile_caller", url, TOKEN]
    memory = Memory(server)
    watching = asyncio.create_task(memory.watch())
    started = await asyncio.create_subprocess_exec(
        *command,
        str(options.lead + options.seconds + 1),
        manner,
        cwd=Path(__file__).parents[1],
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        await asyncio.sleep(options.lead)
        quiet = await measured(clients, options)
        printed, _ = await started.communicate()
    finally:
        watching.cancel()
        if started.returncode is None:
            started.kill()
            await started.wait()
    return quiet, memory.most - memory.before, json.loads(printed)


async def run(options: Namespace, folder: Path) -> dict[str, Any]:
    await store(folder, options)
    idle: list[Quiet] = []
    rounds: dict[str, tuple[Quiet, float, dict[str, int]]] = {}
    settings = {name: value for name, _, value in (each.partition("=") for each in options.settings)}
    async with http_server(launch(folder, options, **settings)) as (url, server), AsyncExitStack() as opened:
        clients = [await connected(opened, url, f"tenant-{number}.1") for number in range(options.quiet)]
        for client in clients:
            hello = [{"role": "user", "content": "Hello"}]
            await call(client, "add_messages", thread_id="thread 0", messages=hello)
        await measured(clients, Namespace(**{**vars(options), "seconds": min(3.0, options.seconds)}))
        for manner in options.manners:
            idle.append(await measured(clients, options))
            rounds[manner] = await beside(clients, server, url, manner, options)
    return report(idle, rounds)


def report(idles: list[Quiet], rounds: dict[str, tuple[Quiet, float, dict[str, int]]]) -> dict[str, Any]:
    """Print the tables. Returns the figures."""
    idle = Quiet()
    for each in idles:
        idle.add(each)
    # Of the rounds, so that one in which the machine was busy otherwise does not excuse the others.
    usual = median(each.ms(0.95) for each in idles)
    rows = [["nobody", str(len(idle.seconds)), str(idle.refused), figure(idle.ms(0.5)), figure(usual), "1"]]
    rows[0] += ["-", "-", "-"]
    figures: dict[str, Any] = {"nobody": {"calls": len(idle.seconds), "p95_ms": usual}}
    for manner, (quiet, grown, counts) in rounds.items():
        times = quiet.ms(0.95) / usual
        rows.append(
            [
                *(manner, str(len(quiet.seconds)), str(quiet.refused), figure(quiet.ms(0.5)), figure(quiet.ms(0.95))),
                *(figure(times), verdict(times <= MOST_TIMES), figure(grown, 0), verdict(grown <= MOST_MB)),
            ]
        )
        figures[manner] = {
            "calls": len(quiet.seconds),
            "refused": quiet.refused,
            "p95_ms": quiet.ms(0.95),
            "times": times,
            "grown_mb": grown,
            "hostile": counts,
        }
    expected = f"{MOST_TIMES:.0f} times its p95, and {MOST_MB:.0f} MB more, are allowed"
    print(f"## Quiet tenants beside a hostile one ({expected})\n\n{table(HEADER, rows)}\n")
    known = ("sent", "answered", "refused", "cut off")
    print(
        table(
            HOSTILE_HEADER,
            [
                [
                    manner,
                    *(str(counts.get(name, 0)) for name in known),
                    ", ".join(f"{name}: {count}" for name, count in counts.items() if count and name not in known),
                ]
                for manner, (_, _, counts) in rounds.items()
            ],
        )
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.hostile", description=__doc__)
    parser.add_argument("--quiet", type=int, default=3, help="quiet tenants")
    parser.add_argument("--rate", type=float, default=10.0, help="calls of each quiet tenant in a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of each round")
    parser.add_argument("--lead", type=float, default=3.0, help="seconds by which the hostile tenant begins earlier")
    parser.add_argument("--images", type=int, default=IMAGES, help="images that the hostile tenant has stored")
    parser.add_argument("--manners", nargs="*", choices=list(MANNERS), default=list(MANNERS), help="what it does")
    parser.add_argument("--settings", nargs="*", default=[], metavar="NAME=VALUE", help="of the server, as variables")
    parser.add_argument("--database", default="", help="postgresql://... instead of a new SQLite file")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="layerlore-hostile-") as folder:
        write_json(options.json, asyncio.run(run(options, Path(folder))))


if __name__ == "__main__":
    main()
