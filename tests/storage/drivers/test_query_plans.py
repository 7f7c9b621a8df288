"""Statements on the way of every call go through the index meant for them, however large a scope is."""

from pathlib import Path

import pytest
from sqlalchemy import Executable, Table

from layerlore.storage.audit import api_keys, usage_rows
from layerlore.storage.core import tables
from layerlore.storage.core.statements import compiled
from layerlore.storage.derived import derivations, working_memory
from layerlore.storage.drivers.sqlite import driver, search
from layerlore.storage.drivers.sqlite.backend import DIALECT
from layerlore.storage.drivers.sqlite.file import migrate_sqlite
from layerlore.storage.index import vectors
from layerlore.storage.jobs import job_rows
from layerlore.storage.messages import indexed_rows, message_pages, message_rows, windows
from layerlore.storage.removal import erasure, retention
from layerlore.storage.threads import events, threads
from layerlore.storage.work import steps

SCOPE = {"tenant_id": "local", "agent_id": "a", "resource_id": "r"}
THREAD = {**SCOPE, "thread_uid": "u"}


def plan(path: Path, statement: Executable) -> list[str]:
    connection = driver.connect(str(path), synchronous="FULL")
    try:
        migrate_sqlite(connection)
        sql = compiled(statement, DIALECT)
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql.sql}", ["1"] * len(sql.names)).fetchall()
    finally:
        connection.close()
    return [row[3] for row in rows if "VIRTUAL TABLE" not in row[3] and row[3].startswith(("SCAN", "SEARCH"))]


ROWS = "SEARCH search_rows USING INTEGER PRIMARY KEY (rowid=?)"
KEY = "tenant_id=? AND agent_id=? AND resource_id=?"


def test_what_stands_around_rows_is_looked_up_by_their_thread_and_seq(tmp_path: Path) -> None:
    taken = plan(tmp_path / "memory.db", indexed_rows._AROUND)
    near = (
        f"SEARCH near USING COVERING INDEX sqlite_autoindex_search_rows_1 ({KEY} AND thread_uid=? AND seq>? AND seq<?)"
    )
    assert [step.removesuffix(" LEFT-JOIN") for step in taken] == [ROWS, ROWS, "SCAN asked", "SCAN asked", near]


def test_rows_that_pass_are_found_through_the_key_of_their_thread_or_scope(tmp_path: Path) -> None:
    for times in (False, True):
        in_thread, *named = plan(tmp_path / "memory.db", indexed_rows._passing(True, times, times))
        assert in_thread == f"SEARCH search_rows USING INDEX sqlite_autoindex_search_rows_1 ({KEY} AND thread_uid=?)"
        # The thread's own rows, and those of each kind of its notes.
        assert all("threads_live_name" in step for step in named)
        (in_scope,) = plan(tmp_path / "memory.db", indexed_rows._passing(False, times, times))
        assert in_scope == f"SEARCH search_rows USING INDEX sqlite_autoindex_search_rows_1 ({KEY})"


def test_rows_without_a_vector_are_looked_for_among_what_was_stored_last_alone(tmp_path: Path) -> None:
    steps = plan(tmp_path / "memory.db", indexed_rows._UNEMBEDDED)
    found = [step for step in steps if "recent" not in step]
    assert found == [
        f"SEARCH threads USING INDEX threads_by_update ({KEY})",
        f"SEARCH entries USING INDEX entries_by_status ({KEY} AND status=?)",
        f"SEARCH search_rows USING COVERING INDEX sqlite_autoindex_search_rows_1 ({KEY} AND thread_uid=? AND seq>?)",
        "SEARCH search_vectors USING INDEX sqlite_autoindex_search_vectors_1 (row_id=? AND model=?)",
    ]


def test_messages_at_places_are_looked_up_by_their_keys(tmp_path: Path) -> None:
    first, *others = plan(tmp_path / "memory.db", indexed_rows._MESSAGES)
    assert first == "SCAN keys"
    assert sorted(others) == [
        f"SEARCH messages USING INDEX sqlite_autoindex_messages_1 ({KEY} AND thread_uid=? AND seq=?)",
        f"SEARCH threads USING INDEX sqlite_autoindex_threads_1 ({KEY} AND thread_uid=?)",
    ]


def test_nearest_codes_are_read_from_the_scopes_part_of_their_index_alone(tmp_path: Path) -> None:
    index = "SEARCH search_vectors USING COVERING INDEX search_vectors_codes (scope_token=? AND model=?{})"
    assert plan(tmp_path / "memory.db", search.NEAREST) == [index.format("")]
    assert plan(tmp_path / "memory.db", search.NEAREST_AMONG) == [index.format(" AND row_id=?")]
    assert plan(tmp_path / "memory.db", vectors._DONE) == [index.format("")]


def test_vectors_are_looked_up_by_their_rows(tmp_path: Path) -> None:
    by_key = "SEARCH search_vectors USING INDEX sqlite_autoindex_search_vectors_1 (row_id=? AND model=?)"
    assert plan(tmp_path / "memory.db", vectors._OF_ROWS) == [by_key]
    assert plan(tmp_path / "memory.db", vectors._LACKING) == [ROWS, by_key]
    onwards, vector = plan(tmp_path / "memory.db", vectors._PENDING.statement)
    assert onwards.startswith("SEARCH search_rows USING INTEGER PRIMARY KEY (rowid>?")
    assert vector == by_key


def test_rows_of_older_rules_have_an_index_of_their_own(tmp_path: Path) -> None:
    """It is made for one version: a new one needs a migration that makes it anew."""
    (only,) = plan(tmp_path / "memory.db", vectors._STALE.statement)
    assert only == "SEARCH search_rows USING INDEX search_rows_stale (row_id>?)"


@pytest.mark.parametrize(
    "statement", [windows._BEFORE, windows._AFTER, message_pages._page(True, False), message_pages._OF_USERS]
)
def test_messages_of_a_thread_are_read_in_the_order_of_its_key(statement: Executable, tmp_path: Path) -> None:
    (only,) = plan(tmp_path / "memory.db", statement)
    assert "sqlite_autoindex_messages_1" in only
    assert "seq" in only


@pytest.mark.parametrize("statement", [message_pages._SAID_THEN, message_pages._COUNT_SAID_THEN])
def test_what_was_said_in_a_time_is_read_by_the_index_of_times(statement: Executable, tmp_path: Path) -> None:
    assert plan(tmp_path / "memory.db", statement) == [
        f"SEARCH messages USING INDEX messages_by_time ({KEY} AND said_at>? AND said_at<?)",
        f"SEARCH threads USING INDEX sqlite_autoindex_threads_1 ({KEY} AND thread_uid=?)",
    ]


@pytest.mark.parametrize("newest_first", [True, False])
def test_messages_of_a_window_are_read_between_two_places_of_the_key(newest_first: bool, tmp_path: Path) -> None:
    (only,) = plan(tmp_path / "memory.db", windows._span(newest_first))
    assert (
        only == f"SEARCH messages USING INDEX sqlite_autoindex_messages_1 ({KEY} AND thread_uid=? AND seq>? AND seq<?)"
    )


def test_the_newest_message_of_the_user_is_found_by_the_index_of_those_alone(tmp_path: Path) -> None:
    (only,) = plan(tmp_path / "memory.db", windows._LATEST_FROM_USER)
    assert only == f"SEARCH messages USING INDEX messages_from_user ({KEY} AND thread_uid=?)"


def test_a_thread_and_a_message_are_found_by_their_ids(tmp_path: Path) -> None:
    assert "threads_live_name" in plan(tmp_path / "memory.db", threads._FIND)[0]
    assert "thread_uid=? AND id=?" in plan(tmp_path / "memory.db", message_rows._KNOWN)[0]


@pytest.mark.parametrize("table", [tables.session_memories, tables.user_profiles], ids=lambda table: table.name)
def test_documents_are_found_by_their_key(table: Table, tmp_path: Path) -> None:
    statements = working_memory._of(table)
    for statement in (statements.forget, statements.mark, statements.last):
        (only,) = plan(tmp_path / "memory.db", statement)
        assert f"sqlite_autoindex_{table.name}_1" in only
    thread = f"{KEY} AND thread_uid=?"
    for statement in (statements.newest, statements.one, statements.one_shown, statements.all):
        found_steps = plan(tmp_path / "memory.db", statement)
        hiding = [step for step in found_steps if "hiding" in step]
        assert len(hiding) == int(statement is statements.one_shown or statement is statements.all)
        assert all(f"sqlite_autoindex_{table.name}_1 ({KEY}" in step for step in hiding)
        version, sources, deleted, gone_thread = (step for step in found_steps if step not in hiding)
        assert f"sqlite_autoindex_{table.name}_1" in version
        assert sources.endswith(f"sqlite_autoindex_document_sources_1 ({thread} AND version=?)")
        # Of a range of messages only those are met that are deleted.
        assert deleted == f"SEARCH deleted USING INDEX messages_hidden ({thread} AND seq>? AND seq<?)"
        assert gone_thread == f"SEARCH gone_thread USING INDEX sqlite_autoindex_threads_1 ({thread})"
    (only,) = plan(tmp_path / "memory.db", statements.cleared)
    assert f"sqlite_autoindex_{table.name}_1 ({KEY})" in only


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
    assert "thread_uid=?" in plan(tmp_path / "memory.db", usage_rows._OF_THREADS)[0]


def test_what_tells_of_messages_is_found_by_its_thread_and_a_title_by_the_message_it_was_made_of(
    tmp_path: Path,
) -> None:
    thread = f"{KEY} AND thread_uid=?"
    for statement, table in ((derivations._FIRST_NOTE, "session_notes"), (derivations._DROP_SUMMARIES, "summaries")):
        telling, told = plan(tmp_path / "memory.db", statement)
        assert telling == f"SEARCH {table} USING INDEX sqlite_autoindex_{table}_1 ({thread})"
        assert told.endswith(f"sqlite_autoindex_messages_1 ({thread} AND seq=?)")
    _, event = plan(tmp_path / "memory.db", derivations._CLEAR_TITLE)
    assert event == f"SEARCH events USING INDEX events_by_message ({thread} AND message_seq=?)"


def test_scopes_with_something_to_erase_are_found_by_the_time_alone(tmp_path: Path) -> None:
    found = "".join(plan(tmp_path / "memory.db", retention._ERASABLE.statement))
    for index in (
        "deletions_by_time",
        "idempotency_by_time",
        "session_memories_cleared",
        "user_profiles_cleared",
        "entries_dropped",
    ):
        assert index in found
    assert "runs_by_expiry" in "".join(plan(tmp_path / "memory.db", retention._WITH_EXPIRED_RUNS.statement))


def test_jobs_that_are_due_are_found_among_those_alone_however_many_are_done(tmp_path: Path) -> None:
    assert plan(tmp_path / "memory.db", job_rows._NEXT.statement)[0].startswith("SEARCH jobs USING INDEX jobs_due")
    steps = [step for step in plan(tmp_path / "memory.db", job_rows._SOONEST.statement) if " jobs " in step]
    by_kind = "SEARCH jobs USING INDEX jobs_due_of_kind (kind=?)"
    assert steps == [by_kind] * len(job_rows.KINDS) + ["SEARCH jobs USING INDEX jobs_held (lease_until>?)"]


def test_a_key_is_found_by_its_digest(tmp_path: Path) -> None:
    assert plan(tmp_path / "memory.db", api_keys._BY_DIGEST.statement) == [
        "SEARCH api_keys USING INDEX sqlite_autoindex_api_keys_2 (digest=?)"
    ]


def test_the_jobs_of_a_tenant_that_are_due_are_found_by_their_own_index(tmp_path: Path) -> None:
    for statement in (job_rows._COUNT_DUE, job_rows._PUT_OFF):
        first, *_ = plan(tmp_path / "memory.db", statement)
        assert first == "SEARCH jobs USING INDEX jobs_due_of_tenant (tenant_id=? AND due_at<?)"
    assert "sqlite_autoindex_tenant_spending_1" in plan(tmp_path / "memory.db", usage_rows._OF_TENANT)[0]


def test_what_is_erased_of_a_thread_is_found_through_keys_that_begin_with_it(tmp_path: Path) -> None:
    for statement in (*erasure._ERASE_SOME, erasure._INDEX_ROWS, *erasure._CLEAR.values()):
        for step in plan(tmp_path / "memory.db", statement):
            assert step.startswith("SEARCH"), (step, str(compiled(statement, DIALECT).sql))
            assert "tenant_id=? AND agent_id=? AND resource_id=?" in step
    for step in plan(tmp_path / "memory.db", erasure._UNFINISHED.statement):
        assert "deletions_by_time" in step or "entries_dropped" in step or step.startswith("SCAN anon_")
