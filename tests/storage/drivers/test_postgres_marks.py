"""A transaction on Postgres leaves the mark by which a lost answer to its COMMIT is made up for, if it wrote something."""

from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest
from sqlalchemy import bindparam, delete, insert, select, text, update

from layerlore.storage.core.records import Scope
from layerlore.storage.core.tables import installation, tenant_spending
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.index import vectors
from layerlore.storage.jobs import job_rows

from ...conformance.building import ANA, NOW

pytestmark = pytest.mark.anyio

Unit = Callable[[Tx, Scope], Awaitable[object]]
ROW = {"name": bindparam("name"), "value": "1"}
NAMED = installation.c.name == bindparam("name")
_added = insert(installation).values(**ROW).returning(installation.c.name).cte("added")

WRITING: dict[str, Unit] = {
    "a row": lambda tx, _: tx.run(insert(installation).values(**ROW), name="n"),
    "rows": lambda tx, _: tx.many(insert(installation).values(**ROW), [{"name": "n"}]),
    "a row that it returns": lambda tx, _: tx.scalar(
        insert(installation).values(**ROW).returning(installation.c.name), name="n"
    ),
    "a row inside a query": lambda tx, _: tx.all(select(_added.c.name), name="n"),
    "text": lambda tx, _: tx.scalar(text("INSERT INTO installation VALUES ('n', '1') RETURNING name")),
    "a change": lambda tx, _: tx.run(
        update(installation).where(NAMED).values(value=installation.c.value), name="hmac_key"
    ),
    "a function that deletes": lambda tx, _: vectors.forget_models(tx, [], 1),
}
READING: dict[str, Unit] = {
    "a query": lambda tx, _: tx.all(select(installation.c.name)),
    "a lock": lambda tx, _: tx.all(select(installation.c.name).with_for_update()),
    "a change of no row": lambda tx, _: tx.run(delete(installation).where(NAMED), name="unknown"),
    "a look at all tenants": lambda tx, _: job_rows._SOONEST.rows(tx, now=NOW, kinds=["observe"]),
    "a query of a tenant's rows": lambda tx, _: tx.all(select(tenant_spending.c.day)),
}


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    opened = await PostgresDatabase.open(postgres_url)
    yield opened
    await opened.close()


async def marks(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        # The slots of scopes, which tell that something of theirs changed, have short names.
        return int(await connection.fetchval("SELECT count(*) FROM last_writes WHERE length(slot) = 32"))
    finally:
        await connection.close()


@pytest.mark.parametrize("unit", WRITING.values(), ids=WRITING)
async def test_a_transaction_that_wrote_leaves_its_mark(
    unit: Unit, database: PostgresDatabase, postgres_url: str
) -> None:
    before = await marks(postgres_url)
    await database.write(unit, ANA)
    assert await marks(postgres_url) == before + 1


@pytest.mark.parametrize("unit", READING.values(), ids=READING)
async def test_a_transaction_that_wrote_nothing_leaves_none(
    unit: Unit, database: PostgresDatabase, postgres_url: str
) -> None:
    before = await marks(postgres_url)
    await database.write(unit, ANA)
    assert await marks(postgres_url) == before
