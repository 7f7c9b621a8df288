"""Updates the tables as the role that owns them, and lets another role serve."""

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.drivers.database import dialect_of
from layerlore.storage.drivers.database_url import check
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.roles import role_of


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
