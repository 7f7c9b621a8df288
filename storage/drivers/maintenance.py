"""Backups of a file; on Postgres the owner of the tables, and tenants that move between clusters."""

from pathlib import Path

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.drivers.dialect import check, dialect_of
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.roles import role_of
from layerlore.storage.drivers.postgres.tenant_move import ClusterUrls, move_tenant
from layerlore.storage.drivers.sqlite.backup import RestoredBackup, make_backup, put_in_place
from layerlore.storage.drivers.sqlite.dialect import DIALECT as SQLITE
from layerlore.storage.drivers.sqlite.dialect import MEMORY, path_of

__all__ = ["ClusterUrls", "move_tenant"]


def back_up(url: str, default: Path, target: Path) -> None:
    """Copy the database that ``url`` names into a new file; servers may go on writing. ``default``: the file for the
    empty URL.

    Raises InvalidInput for a database that is not a file, NotFound, Conflict, StorageUnavailable or OSError.
    """
    make_backup(_find_file(url, default, "pg_dump"), target)


def put_back(url: str, default: Path, backup: Path, stamp: str) -> tuple[Path, RestoredBackup]:
    """Replace the database with a backup. Returns its file, and what was done; the former file stays, with ``stamp`` in
    its name.

    Raises what ``back_up`` raises, DatabaseTooNew or DatabaseTooOld.
    """
    store = _find_file(url, default, "pg_restore")
    return store, put_in_place(backup, store, stamp)


def is_latest(done: RestoredBackup) -> bool:
    """Whether the file that was put back has the tables of today; else the next start updates it."""
    return done.version == latest_version("sqlite")


def _find_file(url: str, default: Path, instead: str) -> Path:
    dialect = dialect_of(url)
    if dialect.has_roles:
        raise InvalidInput(f"this command is for SQLite; for Postgres, use {instead} (docs/tenants.md)")
    if dialect is not SQLITE:
        raise InvalidInput("this command is for SQLite; use the means of the database that the URL names")
    path = path_of(url, default)
    if path == MEMORY:
        raise InvalidInput("there is no database file: memory is off, or the database is in memory")
    return Path(path).absolute()


async def migrate_as_owner(url: str, owner_url: str, shard: str | None = None) -> str:
    """Update the tables as the role of ``owner_url``, and give the role of ``url``, which serves, the rights it needs.
    ``shard``: the cluster's name in an installation of several. Returns the owner's name.

    Raises InvalidInput if the two roles cannot be owner and server of the tables, StorageUnavailable or DatabaseTooNew.
    """
    if not dialect_of(url).has_roles:
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
    database = await PostgresDatabase.open(owner_url, pool_size=1, shard=shard)
    try:
        await database.grant(role)
    finally:
        await database.close()
    return database.standing.role
