"""What a database says of who may be served: looked up once, before the server listens."""

import asyncio
import time

from layerlore.server.access.principal import LOCAL_TENANT
from layerlore.server.exposure import Served
from layerlore.server.settings import Settings
from layerlore.storage import api_keys
from layerlore.storage.database import open_database


def look(settings: Settings) -> Served:
    """Opens the database, and makes it if need be. Raises StorageUnavailable, DatabaseTooNew or InvalidInput."""
    return asyncio.run(_look(settings)) if settings.memory == "on" else Served(False)


async def _look(settings: Settings) -> Served:
    database = await open_database(settings.database.get_secret_value(), settings.database_file)
    try:
        now = time.time_ns() // 1_000_000
        any_key = await database.read_installation(api_keys.any_usable, now)
        others = bool(settings.jwt.issuer) or await database.read_installation(api_keys.any_usable, now, LOCAL_TENANT)
        return Served(any_key, database.unfit if others else "")
    finally:
        await database.close()
