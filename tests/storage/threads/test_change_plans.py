"""How SQLite finds what watchers look at."""

from pathlib import Path

import pytest
from sqlalchemy import Executable

from layerlore.storage.core.statements import compiled
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.backend import DIALECT
from layerlore.storage.drivers.sqlite.file import migrate_sqlite
from layerlore.storage.threads import events

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (events._MARKS, "threads_live_name (tenant_id=? AND agent_id=? AND resource_id=? AND thread_id=?)"),
        (events._TYPES, "(tenant_id=? AND agent_id=? AND resource_id=? AND thread_uid=? AND seq>?)"),
        (events._RUNS, "(tenant_id=? AND agent_id=? AND resource_id=? AND run_id=?)"),
        (events._RESOURCE_EVENTS, "(tenant_id=? AND agent_id=? AND resource_id=? AND seq>?)"),
    ],
)
async def test_what_is_looked_at_again_and_again_is_found_by_its_key(
    statement: Executable, index: str, tmp_path: Path
) -> None:
    connection = driver.connect(str(tmp_path / "memory.db"), synchronous="FULL")
    try:
        migrate_sqlite(connection)
        sql = compiled(statement, DIALECT)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql.sql}", ["1"] * len(sql.names)).fetchall()
    finally:
        connection.close()
    assert any(index in row[3] for row in plan), [row[3] for row in plan]
    assert not [row[3] for row in plan if row[3].startswith("SCAN") and "json_each" not in row[3]]
