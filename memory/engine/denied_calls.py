"""Denied calls in the journal: the first at once, those of a flood together."""

import anyio

from layerlore.memory.engine import journal_lines
from layerlore.memory.engine.engine import PAUSE_SECONDS, Denial, Engine


async def report_denial(engine: Engine, denial: Denial) -> None:
    """Write a refused call to the journal, or count it. Raises nothing."""
    if engine.denials.count(denial):
        await _write(engine, denial, 1)


async def keep_reporting(engine: Engine) -> None:
    """Write the calls that were only counted to the journal, until cancelled. Raises nothing."""
    while True:
        await engine.denials.wait()
        await anyio.sleep(PAUSE_SECONDS)
        for denial, calls in engine.denials.take():
            await _write(engine, denial, calls)


async def report_rest(engine: Engine) -> None:
    """Write all calls that were only counted to the journal, before the database is closed. Raises nothing."""
    for denial, calls in engine.denials.take(all_of_them=True):
        await _write(engine, denial, calls)


async def _write(engine: Engine, denial: Denial, calls: int) -> None:
    line = journal_lines.make_line(
        engine.hmac_key,
        denial.scope,
        denial.origin,
        "denied",
        engine.now(),
        counts={"calls": calls},
        error=denial.error,
    )
    await journal_lines.append(engine.database, denial.scope, line)
