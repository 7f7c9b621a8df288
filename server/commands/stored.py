"""What a command works on: a memory that is there. A command that only looks does not make one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memstrata.memory.engine import Engine
from memstrata.server.commands.database_check import look_at_database
from memstrata.server.runtime import close_engine, open_engine
from memstrata.server.settings import Settings
from memstrata.storage.errors import InvalidInput, NotFound


async def expect_database(settings: Settings, *, off: str, absent: str) -> None:
    """Return if there is one. ``off`` and ``absent`` say what follows if memory is off, or nothing is stored.

    Raises InvalidInput or NotFound.
    """
    state = await look_at_database(settings)
    if settings.memory == "off":
        raise InvalidInput(f"memory is off: nothing is stored, and so {off}")
    if not state.exists:
        raise NotFound(f"{absent}: there is no database at {state.where}")


@asynccontextmanager
async def stored_memory(settings: Settings, *, off: str, absent: str) -> AsyncIterator[Engine]:
    """The engine on it, closed afterwards. Raises the same, StorageUnavailable or DatabaseTooNew."""
    await expect_database(settings, off=off, absent=absent)
    engine = await open_engine(settings)
    try:
        yield engine
    finally:
        await close_engine(engine)
