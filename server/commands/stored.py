"""What a command works on: a memory that is there, with its engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from layerlore.memory.engine import Engine
from layerlore.server.commands.opened import expect_database
from layerlore.server.runtime import close_engine, open_engine
from layerlore.server.settings import Settings


@asynccontextmanager
async def stored_memory(settings: Settings, *, off: str, absent: str) -> AsyncIterator[Engine]:
    """The engine on it, closed afterwards. Raises what ``expect_database`` raises, StorageUnavailable or
    DatabaseTooNew."""
    await expect_database(settings, off=off, absent=absent)
    engine = await open_engine(settings)
    try:
        yield engine
    finally:
        await close_engine(engine)
