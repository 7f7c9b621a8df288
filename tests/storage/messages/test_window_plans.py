"""How Postgres finds the messages of a window."""

import re

import pytest
from sqlalchemy import text

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import of_thread
from layerlore.storage.core.statements import compiled
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.postgres.backend import DIALECT
from layerlore.storage.messages import windows

from ...conformance.building import (
    ANA,
    draft,
    execute,
    say,
)
from ...conformance.messages.test_windows_contract import found

pytestmark = pytest.mark.anyio


async def test_on_postgres_too_the_latest_of_the_user_is_found_by_the_index_of_those_alone(
    database: Database,
) -> None:
    if database.backend.name == "sqlite":
        return  # tests/storage/drivers/test_query_plans.py
    request = draft("hello", role="user")
    await say(database, "main", request, *(draft(role="assistant") for _ in range(2000)))
    await database.write_installation(execute, "ANALYZE messages")
    thread = await found(database)

    async def plan(tx: Tx, scope: Scope) -> list[str]:
        statement = compiled(windows._LATEST_FROM_USER, DIALECT)
        values = statement.arguments(of_thread(ANA, thread.thread_uid))
        sql = re.sub(r"\$(\d+)(::\w+)?", lambda place: repr(values[int(place[1]) - 1]), statement.sql)
        return [row[0] for row in await tx.all(text(f"EXPLAIN {sql}"))]

    assert any("messages_from_user" in line for line in await database.read(plan, ANA))
