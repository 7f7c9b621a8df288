"""Brings the tables of a Postgres database up to date."""

import secrets
from typing import Any

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
