"""The tables of a cluster brought up to date, and the installation's clusters: their names, and the tenants that are on
each (``tenant_places``)."""

import secrets
from collections.abc import Collection
from typing import Any

from sqlalchemy import text

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.dialect import HOME
from layerlore.storage.drivers.migrations.runner import LEDGER, TAKEN, latest_version, pending, reached_version

_LOCK = 0x6C617965726C6F  # "layerlo": the advisory lock of our migrations on a Postgres database

MIGRATION_SECONDS = 86_400.0
"""How long a step may take on Postgres, and others wait for it: in a large database it rewrites whole tables."""

# Functions that run as the owner find their tables in this schema, and nothing that a caller has put before them; and
# only granted roles may call them.
_SEAL = """
DO $do$
DECLARE found regprocedure;
BEGIN
    FOR found IN
        SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prosecdef
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', found, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', found);
    END LOOP;
END
$do$
"""


async def migrate_postgres(connection: Any) -> int:
    """Apply what is missing on an asyncpg connection. Returns the version reached.

    Raises DatabaseTooNew or DatabaseTooOld.
    """
    latest = latest_version("postgres")
    # Looked up without the lock, since most starts find nothing to do.
    version = await postgres_version(connection)
    if version == latest:
        return latest
    # A newer schema is refused before the first table: the role that serves may create none.
    pending("postgres", version)
    async with connection.transaction():
        # Processes that start together wait here, and then find nothing pending.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK, timeout=MIGRATION_SECONDS)
        await connection.execute(LEDGER)
        for step in pending("postgres", await postgres_version(connection)):
            await connection.execute(step.sql, timeout=MIGRATION_SECONDS)
            await connection.execute(
                "INSERT INTO schema_migrations VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)",
                step.version,
                step.name,
            )
        await connection.execute(_SEAL)
        # An existing key stays: marks and fingerprints that are stored were made with it.
        await connection.execute(
            "INSERT INTO installation VALUES ('hmac_key', $1) ON CONFLICT DO NOTHING", secrets.token_hex(32)
        )
    return latest


async def postgres_version(connection: Any) -> int:
    """The schema version of a database; 0: it has no tables of ours. Raises DatabaseTooOld."""
    if await connection.fetchval("SELECT to_regclass('schema_migrations')") is None:
        return 0
    taken = await connection.fetch(TAKEN)
    return reached_version("postgres", [(row["version"], row["name"]) for row in taken])


SHARDED = "layerlore shards"
"""The name that connections of a server on several clusters have. Those of a server that knows of one are "layerlore"."""
_SHARDS = text("SELECT shard, min(tenant_id) FROM tenant_places GROUP BY shard")
NOTED_SHARD = "SELECT value FROM installation WHERE name = 'shard'"
"""The name of the cluster that a database was made for."""
_PLACE = text("SELECT shard FROM tenant_places WHERE tenant_id = :tenant_id")


async def find_place(tx: Tx, tenant_id: str) -> str:
    """On the home cluster: the shard that a tenant is on."""
    return await tx.scalar(_PLACE, tenant_id=tenant_id) or HOME


async def check_places(tx: Tx, shards: Collection[str]) -> None:
    """On the home cluster: check that the settings name each shard that a tenant is on.

    Raises StorageUnavailable.
    """
    for shard, tenant_id in await tx.all(_SHARDS):
        if shard not in shards:
            raise StorageUnavailable(
                f"the tenant {tenant_id!r} is on {_describe(shard)}, which [[shards]] of the settings does not name"
            )


async def check_shard(connection: Any, shard: str | None) -> None:
    """Check that a database is the cluster that the settings take it for, and note its name in it. ``shard``: its name;
    None: it is alone.

    Raises StorageUnavailable.
    """
    noted = await connection.fetchval(NOTED_SHARD)
    if shard is None:
        if noted not in (None, HOME):
            raise StorageUnavailable(
                f"this database is {_describe(noted)} of an installation: as `database`, the settings must name its home "
                "cluster"
            )
        elsewhere = await connection.fetchval("SELECT shard FROM tenant_places WHERE shard <> '' LIMIT 1")
        if elsewhere is not None:
            raise StorageUnavailable(
                f"tenants of this database are on other clusters, such as {elsewhere!r}: the settings must name each of "
                "them in [[shards]]"
            )
        return
    if noted is None:
        # A tenant without a row is at home, so rows that are here already would be served by no cluster.
        if shard != HOME and await connection.fetch("SELECT FROM layerlore_scopes_after('', '', '', 1)"):
            raise StorageUnavailable(
                f"the shard {shard!r} must be an empty database, and this one has memories of its own"
            )
        await connection.execute(
            "INSERT INTO installation VALUES ('shard', $1) ON CONFLICT (name) DO UPDATE SET value = installation.value",
            shard,
        )
        noted = await connection.fetchval(NOTED_SHARD)
    if noted != shard:
        raise StorageUnavailable(
            f"the settings take {_describe(noted)} for {_describe(shard)}: correct the URLs in [[shards]]"
        )


def _describe(shard: str) -> str:
    if shard == HOME:
        return "the home cluster"
    return f"the shard {shard!r}"
