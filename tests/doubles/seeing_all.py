"""For the tests' own SQL: a transaction that sees the rows of all tenants."""

from sqlalchemy import text

from memstrata.storage.transaction import Tx


async def see_all(tx: Tx) -> None:
    """For the rest of the transaction no row is hidden: the tests' role on Postgres owns the tables."""
    if tx.dialect == "postgres":
        await tx.all(text("SELECT set_config('memstrata.across', 'yes', true)"))
