"""Whether anything acknowledged is ever lost: ``python -m benchmarks.durability``, see README.md."""

import argparse
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

import anyio

from benchmarks.kill_trials import THREAD, kill_figures, kill_while_writing
from benchmarks.many_processes import THREADS, crowd, crowd_figures
from benchmarks.servers import ours
from benchmarks.stored import integrity_problems, read_back
from benchmarks.tables import figure, table, write_json

_MOST_SHOWN = 5
# What must be zero.
_FAULTS = ("lost", "stored twice", "breaks in the order", "integrity problems", "errors")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if anything was lost, out of order, damaged, or an error."""
    options = _parser().parse_args(arguments)
    report = anyio.run(_measure, options)
    write_json(options.json, report)
    faults = amiss(report)
    print(f"\nAmiss: {', '.join(faults)}" if faults else "\nNothing was lost, out of order, or damaged.")
    return 1 if faults else 0


def amiss(report: dict[str, dict[str, float | None]]) -> list[str]:
    """The figures that must be zero and are not, each with the run it belongs to."""
    return [f"{run}: {name}" for run, figures in report.items() for name in _FAULTS if figures[name]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durability", description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="kill -9 trials (default: 100; 0: none)")
    parser.add_argument("--writers", type=int, default=4, help="tasks that write in each trial (default: 4)")
    parser.add_argument("--processes", type=int, default=4, help="server processes on one store (default: 4; 0: none)")
    parser.add_argument("--tasks", type=int, default=8, help="client tasks at each process (default: 8)")
    parser.add_argument("--seconds", type=float, default=30, help="how long the processes write (default: 30)")
    parser.add_argument("--folder", type=Path, help="put the store here: on the disk to be measured")
    parser.add_argument("--database", default="", help="postgresql://...; without it a new SQLite file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


async def _measure(options: argparse.Namespace) -> dict[str, dict[str, float | None]]:
    report = {}
    with tempfile.TemporaryDirectory(prefix="layerlore-durability-", dir=options.folder) as folder:
        if options.trials:
            report["kill -9"] = await _kill_trials(options, Path(folder) / "killed")
        if options.processes:
            report["several processes"] = await _several_processes(options, Path(folder) / "shared")
    return report


async def _kill_trials(options: argparse.Namespace, folder: Path) -> dict[str, float | None]:
    folder.mkdir()
    launch = ours(folder, resource=f"killed-{uuid.uuid4().hex[:8]}", database=options.database)
    kills = await kill_while_writing(launch, options.trials, options.writers)
    stored = await read_back(launch, [THREAD])
    problems = await integrity_problems(folder / "memory.db")
    title = f"kill -9 while {options.writers} tasks write, {options.trials} trials on one store"
    return _printed(title, kill_figures(kills, stored, problems), [*kills.errors, *(problems or ())])


async def _several_processes(options: argparse.Namespace, folder: Path) -> dict[str, float | None]:
    folder.mkdir()
    launch = ours(folder, resource=f"shared-{uuid.uuid4().hex[:8]}", database=options.database)
    found = await crowd(launch, processes=options.processes, tasks=options.tasks, seconds=options.seconds)
    stored = await read_back(launch, THREADS)
    problems = await integrity_problems(folder / "memory.db")
    title = f"{options.processes} processes x {options.tasks} tasks on one store for {options.seconds:g} s"
    return _printed(title, crowd_figures(found, stored, problems), [*found.errors, *(problems or ())])


def _printed(title: str, figures: dict[str, float | None], remarks: Sequence[str]) -> dict[str, float | None]:
    rows = [(name, _shown(value)) for name, value in figures.items()]
    print(f"\n## {title}\n\n{table(('', 'figure'), rows)}", flush=True)
    for remark in remarks[:_MOST_SHOWN]:
        print(f"- {remark}")
    return figures


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else figure(value, 1)


if __name__ == "__main__":
    sys.exit(main())
