"""The engine that a command works with, on an existing database. It takes longer to import than the database alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from layerlore.memory.engine.engine import Engine
from layerlore.server.command_line.known_database import expect_database
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import Settings


@asynccontextmanager
async def open_known_memory(settings: Settings, *, off: str, absent: str) -> AsyncIterator[Engine]:
    """Open the engine, and close it afterwards. Raises InvalidInput, NotFound, StorageUnavailable or DatabaseTooNew."""
    await expect_database(settings, off=off, absent=absent)
    engine = await open_engine(settings)
    try:
        yield engine
    finally:
        await close_engine(engine)
