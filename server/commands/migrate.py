"""``memstrata migrate``."""

import asyncio
import sys

from memstrata.server.commands.database_check import look_at_database
from memstrata.server.settings import Settings
from memstrata.storage.database import open_database


def migrate(settings: Settings) -> int:
    """Bring the tables up to date and say so. Returns the exit code.

    Raises StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    return asyncio.run(_migrate(settings))


async def _migrate(settings: Settings) -> int:
    before = await look_at_database(settings)
    database = await open_database(settings.database.get_secret_value(), settings.database_file)
    await database.close()
    change = "was up to date" if before.version == before.latest else f"brought up from version {before.version}"
    sys.stdout.write(f"{before.kind} database {before.where}: version {before.latest}, {change}\n")
    return 0
