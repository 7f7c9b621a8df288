"""Denied calls in the journal: the first at once, those of a flood together."""

import anyio

from layerlore.memory import journaling
from layerlore.memory.denials import PAUSE_SECONDS, Denial
from layerlore.memory.engine import Engine


async def denied(engine: Engine, denial: Denial) -> None:
    """Note that a call was refused. Raises nothing."""
    if engine.denials.count(denial):
        await _tell(engine, denial, 1)


async def keep_telling(engine: Engine) -> None:
    """Tell of those that were only counted, until cancelled. Raises nothing."""
    while True:
        await engine.denials.wait()
        await anyio.sleep(PAUSE_SECONDS)
        for denial, calls in engine.denials.take():
            await _tell(engine, denial, calls)


async def tell_rest(engine: Engine) -> None:
    """The same, of all, before the database is closed. Raises nothing."""
    for denial, calls in engine.denials.take(all_of_them=True):
        await _tell(engine, denial, calls)


async def _tell(engine: Engine, denial: Denial, calls: int) -> None:
    line = journaling.line_of(
        engine.hmac_key,
        denial.scope,
        denial.origin,
        "denied",
        engine.now(),
        counts={"calls": calls},
        error=denial.error,
    )
    await journaling.append(engine.database, denial.scope, line)
