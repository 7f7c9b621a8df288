"""The journal only grows, and says what was committed."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import text

from layerlore.conformance.seeing_all import see_all
from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import JournalFilter, JournalLine, StoredJournalLine
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.threads import threads

from ..building import ANA, BEN, NOW, only, rows, uid

pytestmark = pytest.mark.anyio

LINE = JournalLine(NOW, "key:k1", "coder 1.0", "add_messages", "done", "a" * 32, {"messages": 2})
OTHER = Scope("another-tenant", "agent", "ana")


async def append(database: Database, *lines: JournalLine, scope: Scope = ANA) -> None:
    for line in lines:
        await database.write(journal_rows.append, scope, line)


async def listed(
    database: Database, wanted: JournalFilter | None = None, *, limit: int = 100
) -> list[StoredJournalLine]:
    return await database.read_installation(journal_rows.read_lines, wanted or JournalFilter(), limit=limit)


async def lines(database: Database, wanted: JournalFilter | None = None, *, limit: int = 100) -> list[JournalLine]:
    return [row.line for row in await listed(database, wanted, limit=limit)]


async def refuses(database: Database, sql: str) -> None:
    async def change(tx: Tx) -> None:
        await see_all(tx)
        await tx.run(text(sql))

    with pytest.raises(Exception, match="the journal is only appended to"):
        await database.write_installation(change)


async def test_a_line_is_kept_as_it_was_appended(database: Database) -> None:
    failed = replace(LINE, outcome="failed", counts={}, reason="Conflict")
    await append(database, LINE, failed)
    first, second = await listed(database)
    assert (first.tenant_id, first.agent_id, first.line) == (ANA.tenant_id, ANA.agent_id, LINE)
    assert second.line == failed
    assert second.row_id > first.row_id
    assert ANA.resource_id not in repr(await database.read_installation(rows, "SELECT * FROM journal"))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE journal SET outcome = 'denied'",
        "UPDATE journal SET at = at + 1 WHERE counts <> ''",
        "DELETE FROM journal",
        "DELETE FROM journal WHERE at < 0 OR outcome = 'done'",
    ],
)
async def test_no_line_is_changed_or_deleted(database: Database, sql: str) -> None:
    await append(database, LINE)
    await refuses(database, sql)
    assert await lines(database) == [LINE]


class Undone(Exception):
    pass


async def test_a_line_is_there_if_and_only_if_its_transaction_was_committed(database: Database) -> None:
    async def write(tx: Tx, scope: Scope, name: str, fails: bool) -> None:
        await threads.lock_or_make(tx, ANA, name, uid(), NOW)
        await journal_rows.append(tx, ANA, replace(LINE, client=name))
        if fails:
            raise Undone

    outcomes = await asyncio.gather(
        *(database.write(write, ANA, f"t{n}", n % 3 == 0) for n in range(12)), return_exceptions=True
    )
    committed = {f"t{n}" for n, outcome in enumerate(outcomes) if outcome is None}
    assert len(committed) == 8
    assert {line.client for line in await lines(database)} == committed
    assert {row[0] for row in await database.read_installation(rows, "SELECT thread_id FROM threads")} == committed


async def test_the_newest_lines_are_listed_the_newest_last_as_they_are_wanted(database: Database) -> None:
    made = [
        replace(LINE, at=NOW + n, principal=f"key:{n % 2}", tool=("remember", "forget")[n % 2], resource_mark=str(n))
        for n in range(6)
    ]
    await append(database, *made[:5])
    denied = replace(made[5], outcome="denied", reason="NotPermitted")
    await append(database, denied, scope=OTHER)
    assert await lines(database) == [*made[:5], denied]
    assert await lines(database, limit=2) == [made[4], denied]
    assert await lines(database, JournalFilter(tenant_id=ANA.tenant_id)) == made[:5]
    assert await lines(database, JournalFilter(tenant_id=ANA.tenant_id), limit=1) == [made[4]]
    assert await lines(database, JournalFilter(since=NOW + 2, until=NOW + 3)) == made[2:4]
    assert await lines(database, JournalFilter(principal="key:0")) == made[0:5:2]
    assert await lines(database, JournalFilter(tool="forget")) == [made[1], made[3], denied]
    assert await lines(database, JournalFilter(outcome="denied")) == [denied]
    assert await lines(database, JournalFilter(resource_mark="3")) == [made[3]]
    assert await lines(database, JournalFilter(principal="key:0", tool="forget")) == []


async def test_pruning_removes_what_is_old_of_all_tenants_and_the_table_is_closed_again(database: Database) -> None:
    old = [replace(LINE, at=NOW + n) for n in range(5)]
    await append(database, *old[:3])
    await append(database, *old[3:], scope=OTHER)
    before = await listed(database)
    assert await database.write_installation(journal_rows.prune, before=NOW + 4, most=3) == 3
    assert await database.write_installation(journal_rows.prune, before=NOW + 4, most=3) == 1
    assert await database.write_installation(journal_rows.prune, before=NOW + 4, most=3) == 0
    assert await listed(database) == before[4:]
    await refuses(database, "DELETE FROM journal")


async def test_a_prune_that_fails_leaves_the_lines_and_the_table_closed(database: Database) -> None:
    await append(database, LINE)

    async def prune(tx: Tx) -> None:
        await journal_rows.prune(tx, before=NOW + 1)
        raise Undone

    with pytest.raises(Undone):
        await database.write_installation(prune)
    await refuses(database, "DELETE FROM journal")
    assert await lines(database) == [LINE]


async def test_a_number_is_never_given_again(database: Database) -> None:
    await append(database, LINE, LINE)
    last = (await listed(database))[-1].row_id
    assert await database.write_installation(journal_rows.prune, before=NOW + 1) == 2
    await append(database, LINE)
    assert (await listed(database))[0].row_id > last


async def test_whoever_opens_the_database_as_its_owner_may_read_and_prune(database: Database) -> None:
    assert await database.read_installation(journal_rows.may, "SELECT")
    assert await database.read_installation(journal_rows.may, "DELETE")


async def test_other_scopes_lines_are_told_apart_by_their_tenants(database: Database) -> None:
    for scope in (ANA, BEN, OTHER):
        await append(database, LINE, scope=scope)
    assert await only(database, "SELECT count(DISTINCT tenant_id) FROM journal") == 2


POLICY = """
    ALTER TABLE journal ENABLE ROW LEVEL SECURITY;
    DROP POLICY IF EXISTS scope ON journal;
    CREATE POLICY scope ON journal FOR INSERT
        WITH CHECK (tenant_id = (SELECT nullif(current_setting('layerlore.tenant', true), '')))
"""
