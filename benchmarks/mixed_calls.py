"""Eight clients at once over HTTP: how many calls a second, of ours and of the no-op server in turn."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from benchmarks.metrics import percentile
from benchmarks.sample_text import SampleText
from benchmarks.servers import Connection, Server

_PAGE = 20


@dataclass(slots=True)
class Crowd:
    """What each of several clients does over and over (given how often it has), and what came of it."""

    clients: Sequence[Callable[[int], Awaitable[object]]]
    server: Server
    seconds: list[float] = field(default_factory=list)
    wall_seconds: float = 0.0
    server_cpu_seconds: float = 0.0
    client_cpu_seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return len(self.seconds) / self.wall_seconds

    def ms(self, share: float) -> float:
        return percentile(self.seconds, share) * 1000

    async def run(self, calls: int, first: int) -> None:
        """``calls`` calls of each client, all clients at once, numbered from ``first``."""

        async def one(act: Callable[[int], Awaitable[object]]) -> None:
            for number in range(first, first + calls):
                at = time.perf_counter()
                await act(number)
                self.seconds.append(time.perf_counter() - at)

        began, cpu, own = time.perf_counter(), self.server.cpu_seconds(), time.process_time()
        async with anyio.create_task_group() as tasks:
            for act in self.clients:
                tasks.start_soon(one, act)
        self.wall_seconds += time.perf_counter() - began
        self.server_cpu_seconds += self.server.cpu_seconds() - cpu
        self.client_cpu_seconds += time.process_time() - own


async def in_turn(crowds: Sequence[Crowd], *, rounds: int, calls: int) -> None:
    """Let the crowds run one after the other, ``rounds`` times, after a short round that is not counted."""
    for crowd in crowds:
        warm = Crowd(crowd.clients, crowd.server)
        await warm.run(3, 0)
    for number in range(rounds):
        for crowd in crowds[:: -1 if number % 2 else 1]:
            await crowd.run(calls, number * calls)


def mixing(connection: Connection, text: SampleText, offset: int, threads: int) -> Callable[[int], Awaitable[object]]:
    """What a client does by turns: an add, a page and a recall. ``offset``: with which it begins."""

    async def act(number: int) -> None:
        thread = f"thread-{(number + offset) % threads}"
        if (number + offset) % 3 == 0:
            await connection.call("add_messages", thread_id=thread, messages=[text.message()])
        elif (number + offset) % 3 == 1:
            await connection.call("get_messages", thread_id=thread, limit=_PAGE)
        else:
            await connection.call("recall_memory", query=text.question())

    return act
