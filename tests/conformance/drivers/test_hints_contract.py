"""Whoever listens is told that something was committed, wherever that was."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from pathlib import Path

import pytest
from sqlalchemy import update

from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import JournalLine
from layerlore.storage.core import tables
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.installation import put_trial
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.scopes import in_scope, of_scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.dialect import open_database
from layerlore.storage.threads import threads

from ..building import ANA, BEN, NOW, draft, say
from ..listening import PATIENCE, Ear

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.database.POLL_SECONDS", 0.005)
    monkeypatch.setattr("layerlore.storage.drivers.postgres.hints.BATCH_SECONDS", 0.005)


@pytest.fixture
async def other(database: Database, database_url: str) -> AsyncIterator[Database]:
    """The same database, opened once more, as another process does."""
    opened = await open_database(database_url, Path())
    yield opened
    await opened.close()


async def test_who_begins_to_listen_is_told_to_look_once(database: Database) -> None:
    ear = Ear()
    with database.hints(ear):
        assert (await ear.next())(ANA)


async def test_a_commit_of_its_own_is_told_before_the_write_returns_to_its_caller(database: Database) -> None:
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        for _ in range(50):
            ear.forget()
            await say(database, "main", draft())
            assert any(concerns(ANA) for concerns in ear.hints)


async def test_every_commit_of_another_connection_is_told(database: Database, other: Database) -> None:
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        await say(other, "main", draft())  # its first write may have to connect
        await ear.next()
        for _ in range(50):
            await asyncio.sleep(0.006)  # longer than what is batched
            ear.forget()
            await say(other, "main", draft())
            assert (await ear.next())(ANA)


async def test_the_last_commit_of_a_process_that_ends_at_once_is_told(database: Database, database_url: str) -> None:
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        await say(database, "main", draft())
        await asyncio.sleep(0.1)
        ear.forget()
        brief = await open_database(database_url, Path())
        await say(brief, "main", draft())
        await brief.close()
        assert (await ear.next())(ANA)


async def test_who_has_stopped_listening_is_told_no_more(database: Database, other: Database) -> None:
    gone, there = Ear(), Ear()
    with database.hints(there):
        with database.hints(gone):
            await gone.next()
        gone.forget()
        there.forget()
        await say(other, "main", draft())
        await there.next()
        await say(database, "main", draft())
    assert gone.hints == []


async def test_a_write_whose_caller_was_cancelled_is_told_once_it_is_committed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.storage.drivers.sqlite.database.POLL_SECONDS", PATIENCE)
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        await say(database, "main", draft())
        await asyncio.sleep(0.1)
        ear.forget()
        write = asyncio.create_task(say(database, "main", draft()))
        for _ in range(3):  # it is in the hands of the database now
            await asyncio.sleep(0)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        await ear.next()
        assert (await database.read(threads.find, ANA, "main")).message_count == 2


async def test_reads_are_told_to_nobody(database: Database) -> None:
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        await say(database, "main", draft())
        await asyncio.sleep(0.1)
        ear.forget()
        await database.read(threads.find, ANA, "main")
        with pytest.raises(NotFound):
            await database.read(threads.find, ANA, "none")
        await asyncio.sleep(0.05)
    assert ear.hints == []


async def test_closing_is_quick_while_somebody_listens(database: Database, database_url: str) -> None:
    opened = await open_database(database_url, Path())
    with opened.hints(Ear()):
        async with asyncio.timeout(PATIENCE):
            await opened.close()


async def read_version(database: Database, scope: Scope) -> Hashable:
    """The version of the scope. A busy database may give none at once."""
    async with asyncio.timeout(PATIENCE):
        while (version := await database.version(scope)) is None:
            pass
        return version


async def test_the_version_of_a_scope_is_a_new_one_after_each_commit_to_it(database: Database, other: Database) -> None:
    seen = [await read_version(database, ANA)]
    for writing in (database, other, database, other):
        await database.read(threads.count_live, ANA)
        assert await read_version(database, ANA) == seen[-1]
        await say(writing, "main", draft())
        assert await read_version(database, ANA) not in seen
        seen.append(await read_version(database, ANA))
    with pytest.raises(NotFound):
        await database.write(threads.lock, ANA, "none")
    assert await read_version(database, ANA) == seen[-1]


async def test_a_commit_to_another_scope_leaves_the_version_alone(database: Database) -> None:
    await say(database, "main", draft())
    before = await read_version(database, ANA)
    await say(database, "main", draft(), scope=BEN)
    assert await read_version(database, ANA) == before


async def test_a_commit_of_what_is_in_no_answer_leaves_the_version_alone(database: Database) -> None:
    await say(database, "main", draft())
    before = await read_version(database, ANA)
    await database.write(journal_rows.append, ANA, JournalLine(NOW, "key", "", "add_messages", "done", "", {}))
    await database.write_installation(put_trial)
    assert await read_version(database, ANA) == before


async def test_a_write_to_a_whole_tenant_gives_each_of_its_scopes_a_new_version(database: Database) -> None:
    async def rename(tx: Tx, tenant: Tenant) -> None:
        await tx.enter(BEN)
        await tx.run(update(tables.threads).where(in_scope(tables.threads)).values(title="new"), **of_scope(BEN))

    for scope in (ANA, BEN):
        await say(database, "main", draft(), scope=scope)
    before = [await read_version(database, scope) for scope in (ANA, BEN)]
    await database.write(rename, Tenant(BEN.tenant_id))
    after = [await read_version(database, scope) for scope in (ANA, BEN)]
    assert after[1] != before[1]
    assert after[0] != before[0]
