"""Whether a database keeps tenants apart by itself, beside what our statements ask for."""

from memstrata.storage.postgres_database import PostgresDatabase
from memstrata.storage.transaction import Database


def one_tenant_only(database: Database) -> str:
    """Why Postgres would not keep tenants apart if a statement of ours forgot to; "": it does, or it is SQLite, which
    has no such second line."""
    return database.standing.unfit if isinstance(database, PostgresDatabase) else ""
