"""The tables of who may call. They hold nothing that anybody said."""

from sqlalchemy import BigInteger, Column, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from layerlore.storage.table_parts import metadata

# A key is found by its digest, before anybody knows whose it is: so its own id leads, not the tenant's.
api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the whole key, in hex
    Column("tenant_id", Text, nullable=False),
    Column("agents", Text),  # a JSON list; null: any agent of the tenant
    Column("resource_id", Text),  # null: any resource of the tenant
    Column("rights", Text, nullable=False),  # with commas
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    PrimaryKeyConstraint("key_id"),
    UniqueConstraint("digest"),
)
