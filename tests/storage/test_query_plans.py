"""Statements on the way of every call go through the index meant for them, however large a scope is."""

from pathlib import Path

import pytest
from sqlalchemy import Executable

from memstrata.storage import hits, messages, sqlite_driver, threads
from memstrata.storage.migrations.runner import migrate_sqlite
from memstrata.storage.statements import compiled

SCOPE = {"tenant_id": "local", "agent_id": "a", "resource_id": "r"}
THREAD = {**SCOPE, "thread_uid": "u"}


def plan(path: Path, statement: Executable) -> list[str]:
    connection = sqlite_driver.connect(str(path), synchronous="FULL")
    try:
        migrate_sqlite(connection)
        sql = compiled(statement, "sqlite")
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql.sql}", ["1"] * len(sql.names)).fetchall()
    finally:
        connection.close()
    return [row[3] for row in rows if "json_each" not in row[3] and row[3].startswith(("SCAN", "SEARCH"))]


@pytest.mark.parametrize("statement", [hits._MATCHING, hits._IN_THREAD])
def test_winners_of_a_recall_are_looked_up_by_their_row_ids(statement: Executable, tmp_path: Path) -> None:
    first, winners, *others = plan(tmp_path / "memory.db", statement)
    assert first == "SEARCH search_rows USING INTEGER PRIMARY KEY (rowid=?)"
    assert winners == "SCAN winners"
    assert all("thread_uid=?" in step for step in others), others


@pytest.mark.parametrize("statement", [messages._BEFORE, messages._AFTER, messages._page(True, False)])
def test_messages_of_a_thread_are_read_in_the_order_of_its_key(statement: Executable, tmp_path: Path) -> None:
    (only,) = plan(tmp_path / "memory.db", statement)
    assert "sqlite_autoindex_messages_1" in only
    assert "seq" in only


def test_a_thread_and_a_message_are_found_by_their_ids(tmp_path: Path) -> None:
    assert "threads_live_name" in plan(tmp_path / "memory.db", threads._FIND)[0]
    assert "thread_uid=? AND id=?" in plan(tmp_path / "memory.db", messages._KNOWN)[0]
