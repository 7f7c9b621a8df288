"""Processes for the storage tests."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

Line = dict[str, Any]


class Forking:
    """The program that forks children: orders go to it, and its lines come back."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def order(self, work: str, *, children: int = 1, **arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"work": work, "children": children, **arguments}).encode() + b"\n")

    async def line(self) -> Line:
        assert self._process.stdout is not None
        raw = await asyncio.wait_for(self._process.stdout.readline(), 60)
        assert raw, "the forking program ended"
        line: Line = json.loads(raw)
        return line

    async def until_codes(self) -> tuple[list[Line], list[int]]:
        """The lines up to the end of the children, and how they ended."""
        lines: list[Line] = []
        while "codes" not in (line := await self.line()):
            lines.append(line)
        codes: list[int] = line["codes"]
        return lines, codes


@pytest.fixture
async def forking() -> AsyncIterator[Forking]:
    program = Path(__file__).parent / "programs" / "forking.py"
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    yield Forking(process)
    assert process.stdin is not None
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 60) == 0
