"""A look at a Postgres server and our tables on it, which makes and changes nothing."""

from dataclasses import dataclass

import asyncpg

from layerlore.storage.core.errors import DatabaseTooOld
from layerlore.storage.drivers.postgres.errors import UNREADABLE_URL
from layerlore.storage.drivers.postgres.migration import postgres_version
from layerlore.storage.drivers.postgres.url import read_url

CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServerState:
    """``version`` is the schema's: 0 before the first start. ``server`` is the version of Postgres. ``failure`` says why the
    server cannot be used, and repeats nothing of its URL."""

    version: int = 0
    server: str = ""
    failure: str = ""


async def look_at_server(url: str) -> ServerState:
    """Connect and look. Takes at most some ten seconds, and raises nothing for a server that cannot be used."""
    try:
        given = read_url(url)
        connection = await asyncpg.connect(
            given.dsn, timeout=CONNECT_SECONDS, command_timeout=CONNECT_SECONDS, statement_cache_size=given.statements
        )
        try:
            async with connection.transaction(readonly=True):
                version = await postgres_version(connection)
                return ServerState(version, server=await connection.fetchval("SHOW server_version"))
        finally:
            await connection.close(timeout=CONNECT_SECONDS)
    except DatabaseTooOld as error:
        return ServerState(failure=str(error))
    except (OSError, *UNREADABLE_URL, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return ServerState(failure=_why(error))


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS:g} s"
    # What is raised where the URL is read may repeat it.
    return type(error).__name__ if isinstance(error, UNREADABLE_URL) else str(error) or type(error).__name__
