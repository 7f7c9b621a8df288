"""The commands that keep the database well: ``reindex``, ``migrate``, ``backup``."""

from typing import Annotated, Any

import typer

from layerlore.server.commands.running import load_module, read_settings


def reindex(
    flags: dict[str, Any],
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Index every message again.")] = False,
) -> int:
    """Update the search index and the vectors, as servers do in the background."""
    return int(load_module("cli.reindex").reindex(read_settings(flags), rebuild=rebuild))


def migrate(
    flags: dict[str, Any],
    owner_url: Annotated[
        str | None, typer.Option(help="Postgres: URL of the role that owns the tables, if another role serves.")
    ] = None,
) -> int:
    """Update the database's tables, as every start does."""
    settings = read_settings(flags)
    owner = owner_url or settings.postgres.owner_url.get_secret_value()
    migrated: int = load_module("cli.migrate").migrate(settings, owner)
    return migrated


def backup(
    flags: dict[str, Any],
    file: Annotated[str, typer.Argument(help="The new file. An existing one is never replaced.", show_default=False)],
) -> int:
    """Copy the whole memory into a file, even while servers run. `layerlore restore --from` puts it back."""
    made: int = load_module("cli.backup").backup(read_settings(flags), file)
    return made
