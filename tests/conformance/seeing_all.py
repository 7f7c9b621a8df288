"""For the tests' own SQL: a transaction that sees the rows of all tenants."""

from sqlalchemy import text

from layerlore.storage.core.transaction import Tx


async def see_all(tx: Tx) -> None:
    """For the rest of the transaction no row is hidden: the tests' role on Postgres owns the tables."""
    if tx.backend.name == "postgres":
        await tx.all(text("SELECT set_config('layerlore.across', 'yes', true)"))
