"""``layerlore migrate``: update the tables; with the URL of their owner, grant the serving role its rights."""

import asyncio
import sys
from typing import Annotated, Any

import typer

from layerlore.server.command_line.known_database import look_at_own_database, open_or_create_database
from layerlore.server.command_line.options import read_settings
from layerlore.server.settings.settings import Settings
from layerlore.storage.drivers.dialect import HOME
from layerlore.storage.drivers.maintenance import migrate_as_owner


async def _migrate_as_owner(settings: Settings, owner_url: str) -> int:
    home = HOME if settings.shards else None
    owner = await migrate_as_owner(settings.database.get_secret_value(), owner_url, home)
    for shard in settings.shards:
        # A shard whose serving role owns its tables is brought up to date by every start.
        if shard.owner_url.get_secret_value():
            await migrate_as_owner(shard.url.get_secret_value(), shard.owner_url.get_secret_value(), shard.name)
    state = await look_at_own_database(settings)
    sys.stdout.write(f"{state.kind} database {state.where}: version {state.latest}, owned by {owner}\n")
    return 0


async def _migrate(settings: Settings) -> int:
    before = await look_at_own_database(settings)
    async with open_or_create_database(settings):
        pass  # opening brings the tables up to date
    if before.version == before.latest:
        change = "was up to date"
    else:
        change = f"brought up from version {before.version}"
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
    # The role that owns the tables, or will; the role of the settings gets the rights it needs.
    owner = owner_url or settings.postgres.owner_url.get_secret_value()
    return asyncio.run(_migrate_as_owner(settings, owner) if owner else _migrate(settings))
