"""``layerlore backup`` and ``layerlore restore --from``: copy the whole SQLite file, and put a copy back."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from layerlore.server.command_line.options import fail, read_settings
from layerlore.server.relay.server_query import end_idle
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.drivers.maintenance import back_up, is_latest, put_back


def restore_backup(settings: Settings, file: str) -> int:
    """Replace the memory with a backup. Returns the exit code.

    Raises InvalidInput, NotFound, Conflict, StorageUnavailable, DatabaseTooNew, DatabaseTooOld or OSError.
    """
    _expect_memory(settings)
    # A shared server that no host uses any more may still have the file open.
    end_idle(str(settings.data_dir))
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    source = Path(file).expanduser().absolute()
    store, done = put_back(settings.database.get_secret_value(), settings.database_file, source, stamp)
    if is_latest(done):
        behind = ""
    else:
        behind = "; the next start updates it"
    sys.stdout.write(f"restored {store}: version {done.version}{behind}\n")
    if done.aside is not None:
        sys.stdout.write(f"the former file was kept: {done.aside}\n")
    for damaged in done.unreadable:
        sys.stdout.write(f"damaged in the backup: {damaged}\n")
    sys.stdout.write("whatever was erased, masked or revoked after the backup is back: repeat it\n")
    return 0


def _expect_memory(settings: Settings) -> None:
    if settings.memory == "off":
        raise InvalidInput("there is no database file: memory is off, or the database is in memory")


def backup(
    flags: dict[str, Any],
    file: Annotated[str, typer.Argument(help="The new file. An existing one is never replaced.", show_default=False)],
) -> int:
    """Copy the whole memory into a file, even while servers run. `layerlore restore --from` puts it back."""
    settings = read_settings(flags)
    target = Path(file).expanduser().absolute()
    _expect_memory(settings)
    back_up(settings.database.get_secret_value(), settings.database_file, target)
    sys.stdout.write(f"backed up to {target}: {target.stat().st_size:,} bytes\n")
    return 0


def restore(
    flags: dict[str, Any],
    from_: Annotated[str, typer.Option("--from", help="The backup.", show_default=False)],
) -> int:
    """Replace the whole memory with a backup; `undo` brings back deletions."""
    # A backup is a whole file and cannot be restored for one agent or resource alone.
    if {"agent", "resource"} & flags.keys():
        return fail("restore --from puts back everybody's memory: it takes no --agent or --resource", 2)
    return restore_backup(read_settings(flags), from_)
