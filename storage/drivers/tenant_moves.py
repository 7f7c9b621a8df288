"""Moves tenants between the clusters of an installation, which is what Postgres alone can do."""

from layerlore.storage.drivers.postgres.tenant_move import ClusterUrls, move_tenant

__all__ = ["ClusterUrls", "move_tenant"]
