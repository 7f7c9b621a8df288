"""The database of a command. A command that only reads does not create it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from layerlore.server.settings.sections import shard_urls
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.dialect import DatabaseState, OpenOptions, dialect_of, look_at_database


async def look_at_own_database(settings: Settings, *, whole: bool = False) -> DatabaseState:
    """The state of the database that the settings name. Raises InvalidInput for a URL of an unknown form."""
    return await look_at_database(settings.database.get_secret_value(), settings.database_file, whole=whole)


async def expect_database(settings: Settings, *, off: str, absent: str) -> None:
    """Check that the database exists. ``off`` and ``absent`` say what follows if memory is off, or if it does not exist.

    Raises InvalidInput or NotFound.
    """
    state = await look_at_own_database(settings)
    # Checked after the look, which reports a URL of an unknown form in any case.
    if settings.memory == "off":
        raise InvalidInput(f"memory is off: nothing is stored, and so {off}")
    if not state.exists:
        raise NotFound(f"{absent}: there is no database at {state.where}")


@asynccontextmanager
async def open_known_database(settings: Settings, *, off: str, absent: str) -> AsyncIterator[Database]:
    """Open an existing database without an engine, which takes seconds to load; close it afterwards. Raises InvalidInput,
    NotFound, StorageUnavailable or DatabaseTooNew."""
    await expect_database(settings, off=off, absent=absent)
    async with open_or_create_database(settings) as database:
        yield database


@asynccontextmanager
async def open_or_create_database(settings: Settings) -> AsyncIterator[Database]:
    """Open a database, creating it if need be; close it afterwards. Raises StorageUnavailable, DatabaseTooNew or
    InvalidInput."""
    url = settings.database.get_secret_value()
    options = OpenOptions(settings.database_file, shards=shard_urls(settings.shards))
    database = await dialect_of(url).open(url, options)
    try:
        yield database
    finally:
        await database.close()
