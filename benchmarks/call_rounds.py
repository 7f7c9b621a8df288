"""Times calls of several contenders in alternating rounds, so that what else the machine does hits all alike."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.metrics import percentile
from benchmarks.servers import Server
from layerlore.storage.drivers.sqlite.driver import driver

WARM_UP_CALLS = 10


@dataclass(frozen=True, slots=True)
class Contender:
    """One call to time, and the server that it keeps busy (None: this process)."""

    call: Callable[[], Awaitable[object]]
    server: Server | None = None


@dataclass(slots=True)
class Timed:
    """Seconds of each call, and the CPU seconds of the server in all of them."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def ms(self, share: float) -> float:
        """A percentile in milliseconds."""
        return percentile(self.seconds, share) * 1000

    @property
    def cpu_ms_per_call(self) -> float:
        return self.cpu_seconds / len(self.seconds) * 1000


async def alternate(contenders: Mapping[str, Contender], *, rounds: int, calls: int) -> dict[str, Timed]:
    """``rounds`` times ``calls`` calls of each contender, in an order that turns around each time."""
    timed = {name: Timed() for name in contenders}
    # The first calls open files and fill caches, which is not what a call costs.
    for contender in contenders.values():
        for _ in range(WARM_UP_CALLS):
            await contender.call()
    began = {name: contender.server.cpu_seconds() for name, contender in contenders.items() if contender.server}
    for number in range(rounds):
        # The order turns round, so that no contender always runs behind the same one.
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            for _ in range(calls):
                at = time.perf_counter()
                await contenders[name].call()
                timed[name].seconds.append(time.perf_counter() - at)
    for name, cpu in began.items():
        server = contenders[name].server
        assert server is not None
        timed[name].cpu_seconds = server.cpu_seconds() - cpu
    return timed


class RawCommits:
    """What a durable write costs at least on this disk: one row in a transaction of its own, WAL, synchronous=FULL."""

    def __init__(self, file: Path) -> None:
        self._connection = driver.connect(str(file), isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE message (seq INTEGER PRIMARY KEY, text TEXT NOT NULL)",
        ):
            self._connection.execute(statement)

    async def commit(self, text: str) -> None:
        for statement in ("BEGIN IMMEDIATE", "INSERT INTO message (text) VALUES (?)", "COMMIT"):
            self._connection.execute(statement, (text,) if "?" in statement else ())

    def close(self) -> None:
        self._connection.close()
