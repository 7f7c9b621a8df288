"""Hints of commits by other processes, and in a database that no other process has."""

import asyncio
import threading
from pathlib import Path

import pytest

from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

from ...conformance.building import ANA, draft, say
from ...conformance.listening import PATIENCE, Ear
from ...storage.conftest import Forking

pytestmark = pytest.mark.anyio


async def test_every_commit_of_another_process_is_told(database: Database, database_url: str, forking: Forking) -> None:
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        await say(database, "main", draft())
        ear.forget()
        forking.order("append_for_a_while", children=1, url=database_url, seconds=0.1, tasks=1, answers="/dev/null")
        assert (await ear.next())(ANA)
        _, codes = await forking.until_codes()
    assert len(codes) == 1


async def test_a_database_in_memory_tells_of_its_own_commits() -> None:
    database = await SqliteDatabase.open(":memory:")
    ear = Ear()
    with database.hints(ear):
        await ear.next()
        await say(database, "main", draft())
        assert ear.hints
    await database.close()


async def test_the_version_of_a_scope_is_unknown_while_a_long_write_is_at_work(tmp_path: Path) -> None:
    database = await SqliteDatabase.open(str(tmp_path / "memory.db"))
    began, goes_on = threading.Event(), threading.Event()

    async def write(tx: Tx, scope: Scope) -> None:
        began.set()
        assert goes_on.wait(PATIENCE)

    writing = asyncio.create_task(database.write(write, ANA))
    assert await asyncio.to_thread(began.wait, PATIENCE)
    assert await database.version(ANA) is None
    goes_on.set()
    await writing
    assert await database.version(ANA) is not None
    await database.close()
