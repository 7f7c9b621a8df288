"""Replicas of one store, each on a port that it keeps, and what is done to them while clients call."""

import contextlib
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio
import httpx2
from anyio import to_thread

from benchmarks.servers import Launch, free_port

PATIENCE = 180.0
"""Seconds: only a hang takes so long."""
KILL, STOP, FREEZE = "SIGKILL", "SIGTERM", "SIGSTOP"


@dataclass(slots=True)
class Replica:
    """One server process at a time on one port."""

    launch: Launch
    port: int = field(default_factory=free_port)
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start a process and wait until it is ready. Raises RuntimeError if it ends before."""
        with self.launch.log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [*self.launch.http, str(self.port)],
                env=self.launch.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        async with httpx2.AsyncClient() as http:
            with anyio.fail_after(PATIENCE):
                while not await self._is_ready(http):
                    if self._process.poll() is not None:
                        raise RuntimeError(f"a replica ended: {self.launch.log.read_text(encoding='utf-8')[-2000:]}")
                    await anyio.sleep(0.05)

    async def _is_ready(self, http: httpx2.AsyncClient) -> bool:
        with contextlib.suppress(httpx2.TransportError):
            return (await http.get(f"{self.url}/ready")).status_code == 200
        return False

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def wait(self) -> None:
        """Wait until its process has ended. How is left open: one that has no time to end its calls has another code."""
        assert self._process is not None
        await to_thread.run_sync(self._process.wait, PATIENCE)

    async def stop(self) -> None:
        """End it as an operator does."""
        self.send(signal.SIGTERM)
        await self.wait()

    async def replace(self, launch: Launch) -> None:
        """End it, and start another program in its place."""
        await self.stop()
        self.launch = launch
        await self.start()

    async def heal(self) -> None:
        """Serve again, if it does not."""
        assert self._process is not None
        if self._process.poll() is None:
            self.send(signal.SIGCONT)
        else:
            await self.start()

    def end(self) -> None:
        """Whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextlib.asynccontextmanager
async def running(launches: Sequence[Launch]) -> AsyncIterator[list[Replica]]:
    replicas = [Replica(launch) for launch in launches]
    try:
        async with anyio.create_task_group() as starting:
            for replica in replicas:
                starting.start_soon(replica.start)
        yield replicas
    finally:
        for replica in replicas:
            replica.end()


async def disturb(replicas: Sequence[Replica], chance: random.Random, done: dict[str, int]) -> None:
    """Kill, end and freeze replicas, one after another, until this is cancelled; ``done`` counts."""
    while True:
        await anyio.sleep(chance.uniform(0.2, 2.0))
        replica, act = chance.choice(replicas), chance.choice([KILL, STOP, FREEZE])
        await _ACTS[act](replica, chance)
        done[act] = done.get(act, 0) + 1


async def _kill(replica: Replica, chance: random.Random) -> None:
    replica.send(signal.SIGKILL)
    await replica.wait()
    await anyio.sleep(chance.uniform(0.0, 1.0))
    await replica.start()


async def _stop(replica: Replica, chance: random.Random) -> None:
    await replica.stop()
    await anyio.sleep(chance.uniform(0.0, 1.0))
    await replica.start()


async def _freeze(replica: Replica, chance: random.Random) -> None:
    replica.send(signal.SIGSTOP)
    try:
        await anyio.sleep(chance.uniform(0.5, 6.0))
    finally:
        replica.send(signal.SIGCONT)


_ACTS: dict[str, Callable[[Replica, random.Random], Awaitable[None]]] = {KILL: _kill, STOP: _stop, FREEZE: _freeze}
