"""A run: clients call replicas while something is done to these, and the history is checked."""

import dataclasses
import json
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from benchmarks.histories.client import Client, Plan, Replicas
from benchmarks.histories.fleet import Replica, running
from benchmarks.histories.models import find_faults
from benchmarks.histories.operations import Operation, read_operations
from benchmarks.servers import Launch

FINAL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Load:
    """How many processes call, with how many clients each, and how often a client does."""

    processes: int
    clients: int
    operations: int
    seed: int = 1
    timeout: float = 3.0
    """Seconds until a client gives a call up."""
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class History:
    operations: list[Operation]
    errors: list[str]
    """What servers refused, though clients did nothing wrong."""
    faults: list[str] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        return sum(each.outcome == outcome for each in self.operations)


Act = Callable[[list[Replica]], Awaitable[None]]


async def run(launches: Sequence[Launch], load: Load, folder: Path, act: Act) -> History:
    """``act`` begins when all replicas serve. Clients call until they have done their operations, or it has ended."""
    async with running(launches) as replicas:
        plans = [_plan(load, number, replicas, folder) for number in range(load.processes)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_act, act, replicas, plans)
            async with anyio.create_task_group() as working:
                for plan in plans:
                    working.start_soon(_work, plan)
            tasks.cancel_scope.cancel()
        for replica in replicas:
            await replica.heal()
        operations = [each for plan in plans for each in read_operations(Path(plan.file))]
        errors = [each for plan in plans for each in _errors_of(plan)]
        final = await _read_all(plans[0], operations)
    return History(operations, errors + final.errors, find_faults(operations))


def count_operations(folder: Path) -> int:
    """How many operations the clients of a run in this folder have done so far."""
    return sum(file.read_bytes().count(b"\n") for file in folder.glob("history-*.jsonl"))


async def _act(act: Act, replicas: list[Replica], plans: Sequence[Plan]) -> None:
    await act(replicas)
    for plan in plans:
        plan.stop.touch()


def _plan(load: Load, number: int, replicas: Sequence[Replica], folder: Path) -> Plan:
    return Plan(
        name="abcdefghijklmnopqrstuvwxyz"[number],
        urls=[f"{replica.url}/mcp" for replica in replicas],
        file=str(folder / f"history-{number}.jsonl"),
        clients=load.clients,
        operations=load.operations,
        seed=load.seed,
        timeout=load.timeout,
        after=load.after,
    )


async def _work(plan: Plan) -> None:
    program = [sys.executable, "-m", "benchmarks.histories.client", json.dumps(dataclasses.asdict(plan))]
    await anyio.run_process(program, cwd=Path(__file__).parents[2], stdin=subprocess.DEVNULL, stderr=None)


async def _read_all(plan: Plan, operations: list[Operation]) -> Client:
    """See every thread as it is in the end, and add that to the operations."""
    chance = random.Random(plan.seed)
    replicas = Replicas(plan.urls, FINAL_SECONDS, chance)
    client = Client("the last one", replicas, plan, chance, operations.append)
    await client.read_all(sorted({each.place.partition("/")[2] for each in operations} - {""}))
    await replicas.close()
    return client


def _errors_of(plan: Plan) -> list[str]:
    errors: list[str] = json.loads(Path(plan.file).with_suffix(".errors").read_text(encoding="utf-8"))
    return errors
