"""Background work under kill -9 and stopped processes, in small: nothing is lost and nothing is done twice, and the
same check finds a queue without a fence out."""

import json
import os
import sys
from pathlib import Path

import anyio
import pytest

from benchmarks.jobs import amiss

ROOT = Path(__file__).parents[2]
PATIENCE = 180.0
FEW = ["--effects", "240", "--threads", "10", "--workers", "4"]

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")]


async def figures(tmp_path: Path, database_url: str, *arguments: str) -> tuple[int, dict[str, int]]:
    """The exit code, and what was counted."""
    file = tmp_path / "figures.json"
    where = [] if database_url.startswith("sqlite") else ["--database", database_url]
    command = [sys.executable, "-m", "benchmarks.jobs", *FEW, *arguments, *where, "--json", str(file)]
    with anyio.fail_after(PATIENCE):
        done = await anyio.run_process(command, cwd=ROOT, check=False)
    assert file.exists(), done.stderr.decode()
    return done.returncode, json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.soak
async def test_workers_that_are_killed_and_stopped_lose_nothing_and_do_nothing_twice(
    tmp_path: Path, database_url: str
) -> None:
    code, found = await figures(tmp_path, database_url, "--kills", "6", "--stops", "6")
    assert (code, amiss(found)) == (0, [])
    assert found["effects"] >= 240
    assert found["kill -9"] >= 6
    assert found["stopped past the lease"] >= 6
    assert found["calls of the model"] >= found["effects"] / 2


@pytest.mark.soak
async def test_leases_without_a_fence_fail_the_same_check(tmp_path: Path, database_url: str) -> None:
    code, found = await figures(tmp_path, database_url, "--kills", "0", "--stops", "14", "--without-fence")
    assert code == 1
    assert "duplicates" in amiss(found)
