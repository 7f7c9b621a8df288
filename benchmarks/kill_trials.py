"""kill -9 in the middle of writing, over and over on one store."""

import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
from mcp import MCPError

from benchmarks.sample_text import SampleText
from benchmarks.servers import Connection, Launch, ToolFailed, over_stdio
from benchmarks.stored import Stored

THREAD = "killed"
AFTER_SECONDS = (0.030, 0.250)


@dataclass(slots=True)
class Kills:
    """How the trials went: what was sent and acknowledged, and errors of tools, which there should be none of."""

    trials: int = 0
    sent: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def lost(self, stored: Stored) -> list[str]:
        return sorted(set(self.acknowledged).difference(stored.ids))

    def unacknowledged(self, stored: Stored) -> list[str]:
        """Committed, but killed before the answer was out: allowed."""
        return sorted(set(stored.ids).difference(self.acknowledged))


async def kill_while_writing(launch: Launch, trials: int, writers: int, seed: int = 1) -> Kills:
    """In each trial a new server process, ``writers`` tasks that add messages one by one as fast as they are
    acknowledged, and SIGKILL at a random time after the first acknowledgement. Ends early at an error."""
    kills = Kills()
    chance = random.Random(seed)
    for trial in range(trials):
        async with over_stdio(launch) as connection:
            await _Trial(connection, kills, trial, chance.uniform(*AFTER_SECONDS)).run(writers)
        kills.trials += 1
        if kills.errors:
            break
    return kills


class _Trial:
    def __init__(self, connection: Connection, kills: Kills, number: int, after: float) -> None:
        self._connection = connection
        self._kills = kills
        self._number = number
        self._after = after
        self._begun = anyio.Event()
        self._killed = False

    async def run(self, writers: int) -> None:
        async with anyio.create_task_group() as tasks:
            for writer in range(writers):
                tasks.start_soon(self._write, writer)
            await self._begun.wait()
            await anyio.sleep(self._after)
            self._killed = True
            os.kill(self._connection.server.child.pid, signal.SIGKILL)

    async def _write(self, writer: int) -> None:
        text = SampleText(self._number)
        number = 0
        while not self._killed:
            message = text.message() | {"id": f"{self._number}-{writer}-{number}"}
            number += 1
            self._kills.sent.append(message["id"])
            try:
                await self._connection.call("add_messages", thread_id=THREAD, messages=[message])
            except MCPError as error:  # the connection is gone
                if not self._killed:
                    self._kills.errors.append(str(error))
                break
            except ToolFailed as error:
                self._kills.errors.append(str(error))
                break
            self._kills.acknowledged.append(message["id"])
            self._begun.set()
        self._begun.set()


def kill_figures(kills: Kills, stored: Stored, problems: Sequence[str] | None) -> dict[str, float | None]:
    """What the trials came to; ``problems`` is None where the database has no such check."""
    return {
        "kills": kills.trials,
        "sent": len(kills.sent),
        "acknowledged": len(kills.acknowledged),
        "lost": len(kills.lost(stored)),
        "committed but unacknowledged": len(kills.unacknowledged(stored)),
        "stored twice": stored.repeated,
        "breaks in the order": stored.breaks,
        "integrity problems": None if problems is None else len(problems),
        "errors": len(kills.errors),
    }
