"""The clusters of an installation by their names, and the tenants that are on each (``tenant_places``)."""

from typing import Any

from sqlalchemy import text

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.dialect import HOME

SHARDED = "layerlore shards"
"""The name that connections of a server on several clusters have. Those of a server that knows of one are "layerlore"."""
_PLACE = text("SELECT shard FROM tenant_places WHERE tenant_id = :tenant_id")


async def find_place(tx: Tx, tenant_id: str) -> str:
    """On the home cluster: the shard that a tenant is on."""
    return await tx.scalar(_PLACE, tenant_id=tenant_id) or HOME


async def check_shard(connection: Any, shard: str | None) -> None:
    """Check that a database is the cluster that the settings take it for, and note its name in it. ``shard``: its name;
    None: it is alone.

    Raises StorageUnavailable.
    """
    if shard is None:
        elsewhere = await connection.fetchval("SELECT shard FROM tenant_places WHERE shard <> '' LIMIT 1")
        if elsewhere is not None:
            raise StorageUnavailable(
                f"tenants of this database are on other clusters, such as {elsewhere!r}: the settings must name each of "
                "them in [[shards]]"
            )
        return
    noted = await connection.fetchval("SELECT value FROM installation WHERE name = 'shard'")
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
        noted = await connection.fetchval("SELECT value FROM installation WHERE name = 'shard'")
    if noted != shard:
        raise StorageUnavailable(
            f"the settings take {_describe(noted)} for {_describe(shard)}: correct the URLs in [[shards]]"
        )


def _describe(shard: str) -> str:
    if shard == HOME:
        return "the home cluster"
    return f"the shard {shard!r}"
