"""``layerlore migrate``: update the tables; with the URL of their owner, grant the serving role its rights."""

import asyncio
import sys
from typing import Annotated, Any

import typer

from layerlore.server.command_line.command import read_settings
from layerlore.server.command_line.database_check import look_at_database
from layerlore.server.settings.database_url import check
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.drivers.database import open_database, sqlite_path
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.roles import role_of


def run_migrate(settings: Settings, owner_url: str) -> int:
    """Update the tables and print their version. Returns the exit code.

    ``owner_url``: URL of the role that owns the tables, or will; the role of the settings gets the rights it needs.
    Raises StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    return asyncio.run(_migrate_as_owner(settings, owner_url) if owner_url else _migrate(settings))


async def _migrate_as_owner(settings: Settings, owner_url: str) -> int:
    url = settings.database.get_secret_value()
    if sqlite_path(url, settings.database_file) is not None:
        raise InvalidInput("--owner-url is for Postgres: a SQLite file has no roles")
    try:
        check(owner_url)
    except ValueError as error:
        raise InvalidInput(f"--owner-url: {error}") from None
    role = (await role_of(url))[0].role
    standing, owner = await role_of(owner_url)
    own = standing.role
    if own == role:
        raise InvalidInput(f"--owner-url: {role} is the role that serves; the owner must be another role")
    if standing.above:
        raise InvalidInput(
            f"--owner-url: {standing.above}, so that no policy would hold for what its functions read; "
            f"as a superuser: CREATE ROLE layerlore_owner LOGIN NOSUPERUSER NOBYPASSRLS, to own the tables"
        )
    if owner and owner != own:
        raise InvalidInput(
            f"--owner-url: the tables belong to {owner}, not to {own}; as a superuser, in this database: "
            f"REASSIGN OWNED BY {owner} TO {own}, then run this command again"
        )
    database = await PostgresDatabase.open(owner_url, pool_size=1)
    try:
        await database.grant(role)
    finally:
        await database.close()
    state = await look_at_database(settings)
    sys.stdout.write(f"postgres database {state.where}: version {state.latest}, owned by {database.standing.role}\n")
    return 0


async def _migrate(settings: Settings) -> int:
    before = await look_at_database(settings)
    database = await open_database(settings.database.get_secret_value(), settings.database_file)
    await database.close()
    change = "was up to date" if before.version == before.latest else f"brought up from version {before.version}"
    sys.stdout.write(f"{before.kind} database {before.where}: version {before.latest}, {change}\n")
    return 0


def migrate(
    flags: dict[str, Any],
    owner_url: Annotated[
        str | None, typer.Option(help="Postgres: URL of the role that owns the tables, if another role serves.")
    ] = None,
) -> int:
    """Update the database's tables, as every start does."""
    settings = read_settings(flags)
    owner = owner_url or settings.postgres.owner_url.get_secret_value()
    return run_migrate(settings, owner)
