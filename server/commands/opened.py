"""The database that a command works on: one that is there. A command that only looks does not make one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from layerlore.server.commands.database_check import look_at_database
from layerlore.server.settings import Settings
from layerlore.storage.database import open_database
from layerlore.storage.errors import InvalidInput, NotFound
from layerlore.storage.transaction import Database


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
async def known_database(settings: Settings, *, off: str, absent: str) -> AsyncIterator[Database]:
    """The database alone, closed afterwards: for what needs no engine, which takes seconds to load. Raises the same,
    StorageUnavailable or DatabaseTooNew."""
    await expect_database(settings, off=off, absent=absent)
    async with opened_database(settings) as database:
        yield database


@asynccontextmanager
async def opened_database(settings: Settings) -> AsyncIterator[Database]:
    """The same, made if it is not there. Raises StorageUnavailable, DatabaseTooNew or InvalidInput."""
    database = await open_database(settings.database.get_secret_value(), settings.database_file)
    try:
        yield database
    finally:
        await database.close()
