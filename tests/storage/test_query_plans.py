"""Statements on the way of every call go through the index meant for them, however large a scope is."""

from pathlib import Path

import pytest
from sqlalchemy import Executable, Table

from memstrata.storage import events, hits, messages, sqlite_driver, steps, tables, threads, usage, working_memory
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


@pytest.mark.parametrize("table", [tables.session_memories, tables.user_profiles], ids=lambda table: table.name)
def test_documents_are_found_by_their_key_and_cleared_ones_by_their_time(table: Table, tmp_path: Path) -> None:
    statements = working_memory._of(table)
    for statement in (statements.newest, statements.one, statements.all, statements.forget, statements.mark):
        (only,) = plan(tmp_path / "memory.db", statement)
        assert f"sqlite_autoindex_{table.name}_1" in only
    (only,) = plan(tmp_path / "memory.db", statements.cleared)
    assert f"{table.name}_cleared (created_at<?)" in only


@pytest.mark.parametrize(
    ("statement", "key"),
    [
        (events._page(False), "sqlite_autoindex_events_1"),
        (events._page(True), "sqlite_autoindex_events_1"),
        (steps._page(False), "sqlite_autoindex_steps_1"),
        (steps._page(True), "steps_by_operation"),
    ],
)
def test_a_log_is_read_on_from_a_seq_in_the_order_of_its_key(statement: Executable, key: str, tmp_path: Path) -> None:
    log, message = plan(tmp_path / "memory.db", statement)
    assert key in log
    assert "seq>?" in log
    assert "seq=?" in message


def test_what_threads_spent_is_found_by_their_ids(tmp_path: Path) -> None:
    assert "thread_uid=?" in plan(tmp_path / "memory.db", usage._OF_THREADS)[0]
