"""The two roles of a Postgres that serves several tenants: the owner of the tables, who brings them up to date, and the
server's own, which row-level security holds to one tenant at a time."""

from dataclasses import dataclass
from typing import Any

import asyncpg

from layerlore.storage.core.errors import DatabaseTooOld, StorageUnavailable
from layerlore.storage.drivers.postgres.dialect import read_url
from layerlore.storage.drivers.postgres.places import NOTED_SHARD, postgres_version
from layerlore.storage.drivers.postgres.transaction import UNREADABLE_URL

CONNECT_SECONDS = 10.0

# The rights of the server's role on a table, if they are not to read and change its rows.
_LESS = {"schema_migrations": "SELECT", "tenant_places": "SELECT", "journal": "INSERT"}
_STANDING = """
SELECT current_user, rolsuper, rolbypassrls,
       EXISTS (SELECT FROM pg_class
               WHERE relnamespace = current_schema()::regnamespace AND pg_has_role(current_user, relowner, 'MEMBER'))
       OR EXISTS (SELECT FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid
                  CROSS JOIN unnest(polroles) AS opens_to
                  WHERE relnamespace = current_schema()::regnamespace AND polname = 'across'
                    AND pg_has_role(current_user, opens_to, 'MEMBER'))
FROM pg_roles WHERE rolname = current_user
"""
# They open to the owner's functions, and name the owner of the tables: after these changed hands that is another.
_OPENING = "SELECT tablename FROM pg_policies WHERE schemaname = current_schema() AND policyname = 'across'"


@dataclass(frozen=True, slots=True)
class RoleStanding:
    """The relation of a role to the tables. ``owner``: of any of them, or held to be by their policies."""

    role: str
    superuser: bool
    bypasses: bool
    owner: bool

    @property
    def above(self) -> str:
        """Why row-level security can hold the role nowhere, even forced on an owner; empty: it can."""
        if self.superuser:
            return f"the role {self.role} is a superuser"
        if self.bypasses:
            return f"the role {self.role} has BYPASSRLS"
        return ""

    @property
    def unfit(self) -> str:
        """Why row-level security does not hold the role; empty: it does."""
        return self.above or (f"the role {self.role} owns the tables" if self.owner else "")


async def read_standing(connection: Any) -> RoleStanding:
    """Read the standing of the role that an asyncpg connection has."""
    return RoleStanding(*await connection.fetchrow(_STANDING))


async def role_of(url: str) -> tuple[RoleStanding, str]:
    """The role of a URL's connection, and the owner of the tables there ("": none exist yet).

    Raises StorageUnavailable, whose text repeats nothing of the URL.
    """
    try:
        where = read_url(url)
        connection = await asyncpg.connect(where.dsn, timeout=CONNECT_SECONDS, statement_cache_size=where.statements)
    except (OSError, *UNREADABLE_URL, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise StorageUnavailable(f"cannot connect to Postgres ({type(error).__name__})") from None
    try:
        async with connection.transaction():
            find_owner = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass('threads')"
            return await read_standing(connection), str(await connection.fetchval(find_owner) or "")
    finally:
        await connection.close()


async def grant(connection: Any, role: str) -> None:
    """As the owner of the tables, let another role serve: it reads and changes rows, adds to the journal, and calls the
    functions that look at all tenants; it owns nothing."""
    quoted = await connection.fetchval("SELECT quote_ident($1)", role)
    schema = await connection.fetchval("SELECT quote_ident(current_schema())")
    await connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {quoted}")
    for (name,) in await connection.fetch(_OPENING):
        table = await connection.fetchval("SELECT format('%I.%I', current_schema(), $1::text)", name)
        await connection.execute(f"ALTER POLICY across ON {table} TO CURRENT_USER")
    for (name,) in await connection.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
    ):
        rights = _LESS.get(name, "SELECT, INSERT, UPDATE, DELETE")
        table = await connection.fetchval("SELECT format('%I.%I', current_schema(), $1::text)", name)
        # Rights that an earlier grant gave must not stay.
        await connection.execute(f"REVOKE ALL ON {table} FROM {quoted}")
        await connection.execute(f"GRANT {rights} ON {table} TO {quoted}")
    for (function,) in await connection.fetch(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prosecdef"
    ):
        await connection.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {quoted}")


LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServerState:
    """``version`` is the schema's: 0 before the first start. ``server`` is the version of Postgres. ``failure`` says why the
    server cannot be used, and repeats nothing of its URL. ``shard``: the name of the cluster that is noted in the database;
    None: none is."""

    version: int = 0
    server: str = ""
    failure: str = ""
    shard: str | None = None


async def look_at_server(url: str) -> ServerState:
    """Connect and look. Takes at most some ten seconds, and raises nothing for a server that cannot be used."""
    try:
        given = read_url(url)
        connection = await asyncpg.connect(
            given.dsn, timeout=LOOK_SECONDS, command_timeout=LOOK_SECONDS, statement_cache_size=given.statements
        )
        try:
            async with connection.transaction(readonly=True):
                version = await postgres_version(connection)
                server = await connection.fetchval("SHOW server_version")
                shard = await connection.fetchval(NOTED_SHARD) if version else None
                return ServerState(version, server, shard=shard)
        finally:
            await connection.close(timeout=LOOK_SECONDS)
    except DatabaseTooOld as error:
        return ServerState(failure=str(error))
    except (OSError, *UNREADABLE_URL, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        return ServerState(failure=_why(error))


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {LOOK_SECONDS:g} s"
    # An error from reading the URL may repeat it.
    if isinstance(error, UNREADABLE_URL):
        return type(error).__name__
    return str(error) or type(error).__name__
