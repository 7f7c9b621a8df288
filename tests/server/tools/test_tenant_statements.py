"""On Postgres each statement of a call names the tenant for every table of tenants that it reads or changes."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from sqlalchemy import Dialect, Executable

from layerlore.storage.core.installation import LOOKS
from layerlore.storage.core.statements import CompiledStatement
from layerlore.storage.drivers.postgres import search, transaction
from layerlore.storage.drivers.postgres.backend import DIALECT
from layerlore.storage.index import vectors
from layerlore.storage.messages import indexed_rows
from layerlore.storage.removal import erasure

from .calling import Connect, Json
from .sample_calls import SAMPLE_CALLS, make_small_world

pytestmark = pytest.mark.anyio

OF_THE_INSTALLATION = {"api_keys", "installation", "last_writes", "spending"}
THE_SCOPES_TOKEN = {"layerlore_postings", "layerlore_stem"}
"""The words of a scope are found by its token in the index of words."""
# The server of this test has no embedder.
OF_VECTORS = (
    *(search.NEAREST, search.NEAREST_AMONG, search.PUT),
    *(vectors._OF_ROWS, vectors._DONE, vectors._LACKING, vectors._LACKING_LOCKED),
    *(indexed_rows._UNEMBEDDED, indexed_rows._AROUND, indexed_rows._PLACES),
    *(erasure._ALL_VECTORS, erasure._VECTORS, *erasure._ERASE_INDEX),
)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The SQL that runs from now on."""
    statements: set[str] = set()
    compiled = transaction.compiled

    def noted(statement: Executable, dialect: Dialect) -> CompiledStatement:
        found = compiled(statement, dialect)
        statements.add(found.sql)
        return found

    monkeypatch.setattr(transaction, "compiled", noted)
    return statements


@pytest.fixture
async def superuser(postgres_admin_url: str, postgres_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection whose plans have the conditions of the statement alone, and none of a policy."""
    address = urlsplit(postgres_url)
    (schema,) = parse_qs(address.query)["search_path"]
    connection = await asyncpg.connect(postgres_admin_url, database=address.path.removeprefix("/"))
    # Of a table that is read whole and hashed, a plan does not show by what it is compared.
    no_scans = "SET enable_seqscan TO off; SET seq_page_cost TO 1000000"
    await connection.execute(f"SET search_path TO {schema}; SET plan_cache_mode TO force_generic_plan; {no_scans}")
    yield connection
    await connection.close()


def parts(plan: Json) -> Iterator[Json]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from parts(part)


async def reads_without_tenant(superuser: "asyncpg.Connection[asyncpg.Record]", sql: str) -> list[str]:
    """The tables that a statement reads with no condition on their tenant."""
    parameters = max((int(number) for number in re.findall(r"\$(\d+)", sql)), default=0)
    values = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
    await superuser.execute(f"PREPARE planned AS {sql}")
    explained = await superuser.fetchval(f"EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE planned{values}")
    await superuser.execute("DEALLOCATE planned")
    steps = [*parts(json.loads(explained)[0]["Plan"])]
    conditions = " ".join(
        str(value) for step in steps for name, value in step.items() if name.endswith(("Cond", "Filter"))
    )
    read = [
        (step["Relation Name"], step["Alias"])
        for step in steps
        if "Relation Name" in step and step["Node Type"] != "ModifyTable"
    ]
    return [
        table
        for table, alias in read
        if table not in OF_THE_INSTALLATION and not re.search(rf"\b{alias}\.tenant_id\b", conditions)
    ]


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_every_statement_of_a_call_names_the_tenant(
    connect: Connect, ran: set[str], superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async with connect(toolsets="all") as tools:
        await make_small_world(tools)
        for tool, arguments in SAMPLE_CALLS.items():
            await tools.raw(tool, **arguments)
    assert len(ran) > 100
    ran |= {transaction.compiled(statement, DIALECT).sql for statement in OF_VECTORS}
    found = {}
    for sql in ran:
        if tables := await reads_without_tenant(superuser, sql):
            found[sql] = tables
    assert not found, found
    called = {name for sql in ran for name in re.findall(r"\blayerlore_\w+", sql)}
    assert called - LOOKS.keys() == THE_SCOPES_TOKEN


async def test_a_statement_without_the_tenant_is_found(superuser: "asyncpg.Connection[asyncpg.Record]") -> None:
    joined = "SELECT m.id FROM messages m JOIN threads t USING (thread_uid) WHERE t.tenant_id = $1"
    assert await reads_without_tenant(superuser, joined) == ["messages"]
    assert await reads_without_tenant(superuser, "DELETE FROM search_rows WHERE row_id = $1") == ["search_rows"]
