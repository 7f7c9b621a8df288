"""Whether background work is ever lost or done twice: ``python -m benchmarks.jobs``, see README.md.

Workers do jobs whose effects are counted, while they are killed, and stopped until their leases have run out.
"""

import argparse
import asyncio
import dataclasses
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import job_program
from benchmarks.job_program import PACE, Tally
from benchmarks.tables import table, write_json
from layerlore.storage.drivers.sqlite import driver

FAULT_SECONDS = (0.03, 0.15)
STOPPED_SECONDS = (PACE.lease_ms / 1000 * 1.1, PACE.lease_ms / 1000 * 2.2)
LOOK_SECONDS = 1.0
SETTLE_SECONDS = 1.5
PATIENCE_SECONDS = 900.0


@dataclass
class Faults:
    """Processes under way, and what was done to them. ``stopped`` has when each is to go on."""

    url: str
    fenced: bool
    kills: int = 0
    stops: int = 0
    running: list[int] = field(default_factory=list)
    stopped: dict[int, float] = field(default_factory=dict)
    died: list[int] = field(default_factory=list)

    def begin(self) -> None:
        self.running.append(_forked(lambda: job_program.work(self.url, self.fenced)))

    def kill_one(self) -> None:
        """kill -9, and another process in its place."""
        self._end(random.choice(self.running))
        self.kills += 1
        self.begin()

    def stop_one(self) -> None:
        """SIGSTOP, for longer than a lease."""
        able = [pid for pid in self.running if pid not in self.stopped]
        if len(able) > 1:  # somebody has to take over
            pid = random.choice(able)
            os.kill(pid, signal.SIGSTOP)
            self.stopped[pid] = time.monotonic() + random.uniform(*STOPPED_SECONDS)
            self.stops += 1

    def let_go_on(self, *, all_of_them: bool = False) -> None:
        for pid, at in list(self.stopped.items()):
            if all_of_them or at <= time.monotonic():
                os.kill(pid, signal.SIGCONT)
                del self.stopped[pid]

    def replace_dead(self) -> None:
        """A worker never ends by itself: one that does is a fault of its own."""
        for pid in list(self.running):
            ended, _ = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.running.remove(pid)
                self.stopped.pop(pid, None)
                self.died.append(pid)
                self.begin()

    def end_all(self) -> None:
        for pid in list(self.running):
            self._end(pid)

    def _end(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.running.remove(pid)
        self.stopped.pop(pid, None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if an effect is missing or there twice."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="layerlore-jobs-", dir=options.folder) as folder:
        file = Path(folder) / "memory.db"
        report = _measure(options, options.database or f"sqlite://{file}")
        report["integrity problems"] = _integrity_problems(file) if not options.database else 0
    print(table(("", "figure"), [(name, f"{value:,}") for name, value in report.items()]))
    write_json(options.json, report)
    faults = amiss(report)
    print(f"\nAmiss: {', '.join(faults)}" if faults else "\nNothing was lost, and nothing was done twice.")
    return 1 if faults else 0


def amiss(report: dict[str, int]) -> list[str]:
    """The figures that must be zero and are not."""
    names = ("duplicates", "missing", "jobs left", "calls miscounted", "workers that ended", "integrity problems")
    return [name for name in names if report[name]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description=__doc__)
    parser.add_argument("--effects", type=int, default=8_000, help="at least so many effects (default: 8,000)")
    parser.add_argument("--kills", type=int, default=100, help="at least so many kill -9 (default: 100)")
    parser.add_argument("--stops", type=int, default=80, help="at least so many stops past a lease (default: 80)")
    parser.add_argument("--threads", type=int, default=40, help="threads that have jobs (default: 40)")
    parser.add_argument("--workers", type=int, default=6, help="worker processes (default: 6)")
    parser.add_argument("--without-fence", action="store_true", help="leases alone: this must fail")
    parser.add_argument("--folder", type=Path, help="put the store here: on the disk to be measured")
    parser.add_argument("--database", default="", help="postgresql://... of an empty database; else a new SQLite file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


def _measure(options: argparse.Namespace, url: str) -> dict[str, int]:
    _in_child(lambda: job_program.prepare(url))
    faults = Faults(url, not options.without_fence)
    upto = -(-options.effects // options.threads)
    began = time.monotonic()
    try:
        _in_child(lambda: job_program.raise_limit(url, options.threads, upto))
        for _ in range(options.workers):
            faults.begin()
        while True:
            _disturb(faults, options)
            found = _tally(url, options.threads, upto)
            late = time.monotonic() - began > PATIENCE_SECONDS
            if late or (found.done and faults.kills >= options.kills and faults.stops >= options.stops):
                break
            if found.done:
                upto += -(-options.effects // options.threads // 4)
                _in_child(lambda upto=upto: job_program.raise_limit(url, options.threads, upto))
        seconds = time.monotonic() - began
        # Who was stopped comes back to a world that has gone on.
        faults.let_go_on(all_of_them=True)
        time.sleep(SETTLE_SECONDS)
        found = _tally(url, options.threads, upto)
    finally:
        faults.end_all()
    return {
        "effects": found.expected,
        "kill -9": faults.kills,
        "stopped past the lease": faults.stops,
        "duplicates": found.duplicates,
        "missing": found.missing,
        "jobs left": int(not found.done),
        "calls of the model": found.calls,
        "calls miscounted": int(not found.counted),
        "workers that ended": len(faults.died),
        "seconds": round(seconds),
    }


def _disturb(faults: Faults, options: argparse.Namespace) -> None:
    """Between two looks: kill and stop, as long as there is something left of either."""
    until = time.monotonic() + LOOK_SECONDS
    while time.monotonic() < until:
        time.sleep(random.uniform(*FAULT_SECONDS))
        faults.let_go_on()
        faults.replace_dead()
        left = [
            act
            for act, more in (
                (faults.kill_one, options.kills - faults.kills),
                (faults.stop_one, options.stops - faults.stops),
            )
            if more > 0
        ]
        if left:
            random.choice(left)()


def _tally(url: str, threads: int, upto: int) -> Tally:
    return Tally(**_in_child(lambda: _as_json(job_program.tally(url, threads, upto))))


async def _as_json(found: Coroutine[Any, Any, Tally]) -> dict[str, Any]:
    return dataclasses.asdict(await found)


def _in_child(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run it in a process of its own, so that this one never has a thread, and can fork. Returns JSON."""
    reads, writes = os.pipe()
    pid = _forked(work, writes)
    os.close(writes)
    with os.fdopen(reads, "rb") as answer:
        raw = answer.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, f"it ended with {status}"
    return json.loads(raw)


def _forked(work: Callable[[], Coroutine[Any, Any, Any]], answer: int | None = None) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        random.seed()
        logging.disable(logging.WARNING)
        result = asyncio.run(work())
        if answer is not None:
            os.write(answer, json.dumps(result).encode())
        code = 0
    except BaseException:  # noqa: BLE001 - it is a process of its own: its parent sees the code
        traceback.print_exc()
    finally:
        os._exit(code)


def _integrity_problems(file: Path) -> int:
    connection = driver.connect(str(file), synchronous="OFF")
    try:
        return len(driver.integrity_problems(connection))
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
