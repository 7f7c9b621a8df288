"""Several processes on one SQLite file, and processes that are killed."""

import asyncio
import json
import os
import random
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from layerlore.storage.core.errors import NotFound
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

from ...conformance.building import draft, everything, execute, having, say
from ..conftest import Forking

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked"),
    pytest.mark.programs,
]

TRIALS = 20


async def test_four_processes_of_eight_tasks_on_one_file_lose_nothing(forking: Forking, tmp_path: Path) -> None:
    path, answers = tmp_path / "memory.db", tmp_path / "answers"
    forking.order("append_for_a_while", children=4, url=f"sqlite://{path}", seconds=2.0, tasks=8, answers=str(answers))
    lines, codes = await forking.until_codes()
    assert [line for line in lines if "error" in line] == []
    assert codes == [0] * 4
    acknowledged = [tuple(row) for n in range(4) for row in json.loads(Path(f"{answers}.{n}").read_text())]
    # Each process got its turns: none was starved by the others.
    assert all(Path(f"{answers}.{n}").stat().st_size > 100 for n in range(4))
    database = await SqliteDatabase.open(str(path))
    try:
        stored = []
        for thread_id in ("t0", "t1", "t2"):
            kept = await everything(database, thread_id)
            assert [message.seq for message in kept] == list(range(1, len(kept) + 1))
            assert all(earlier.created_at < later.created_at for earlier, later in pairwise(kept))
            stored += [(thread_id, message.id, message.seq) for message in kept]
        assert sorted(stored) == sorted(acknowledged)
        assert len(await having(database, "word", most=10**6)) == len(stored)
        assert await database.integrity_problems() == []
    finally:
        await database.close()


async def kill_one(forking: Forking, path: Path, pause: float) -> set[str]:
    """Let a child append until it is killed. Returns what it had acknowledged."""
    forking.order("append_until_killed", url=f"sqlite://{path}", tasks=4)
    (pid,) = (await forking.line())["pids"]
    first = await forking.line()
    await asyncio.sleep(pause)
    os.kill(pid, signal.SIGKILL)
    lines, codes = await forking.until_codes()
    assert codes == [-signal.SIGKILL]
    return {id_ for line in (first, *lines) for id_ in line["acknowledged"]}


async def kept_in(database: SqliteDatabase) -> set[str]:
    """The ids of all messages, whose seqs have no gap."""
    stored: set[str] = set()
    for thread_id in ("t0", "t1"):
        try:
            kept = await everything(database, thread_id)
        except NotFound:
            continue
        assert [message.seq for message in kept] == list(range(1, len(kept) + 1))
        stored |= {message.id for message in kept}
    return stored


async def check(path: Path, acknowledged: set[str]) -> None:
    database = await SqliteDatabase.open(str(path))
    try:
        stored = await kept_in(database)
        assert acknowledged <= stored
        for id_ in stored:  # all of an append, or nothing of it
            task, n, _ = id_.split(".")
            assert {f"{task}.{n}.{part}" for part in range(int(n) % 3 + 1)} <= stored
        # Beyond what was acknowledged: at most the last, unanswered append of each of the four tasks.
        assert len({id_.rpartition(".")[0] for id_ in stored - acknowledged}) <= 4
        assert len(await having(database, "word", most=10**6)) == len(stored)
        assert await database.integrity_problems() == []
    finally:
        await database.close()


async def test_nothing_acknowledged_is_lost_when_a_writer_is_killed(forking: Forking, tmp_path: Path) -> None:
    pauses = random.Random()
    checks = []
    for trial in range(TRIALS):
        path = tmp_path / f"{trial}.db"
        acknowledged = await kill_one(forking, path, pauses.uniform(0.03, 0.15))
        assert acknowledged
        checks.append(asyncio.create_task(check(path, acknowledged)))
    await asyncio.gather(*checks)


async def test_a_killed_writer_does_not_keep_the_others_out(forking: Forking, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    database = await SqliteDatabase.open(str(path))
    try:
        for trial in range(3):
            acknowledged = await kill_one(forking, path, 0.02)
            done = await say(database, f"ours{trial}", draft())  # or a lock that stays raises after ten seconds
            assert done.stored[0].seq == 1
            assert acknowledged <= await kept_in(database)
            await database.write_installation(execute, "DELETE FROM threads")  # the next child uses the same ids
    finally:
        await database.close()
