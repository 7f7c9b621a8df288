"""Every column is known: it holds content, or it is told here why it holds none."""

import pytest
from sqlalchemy import LargeBinary, Table, Text

from layerlore.storage.core.tables import SCOPE, journal, metadata, search_rows, search_vectors
from layerlore.storage.core.tables.columns import CONTENT
from layerlore.storage.removal.masked_rows import _BESIDE

IDS = {
    *(
        *SCOPE,
        "thread_uid",
        "thread_id",
        "source_thread_uid",
        "deletion_uid",
        "id",
        "entry_id",
        "superseded_by",
        "share_id",
    ),
    *("run_id", "parent_run_id", "claim", "key", "key_id", "resource_mark", "turn", "undo_id", "ref"),
}
NAMES = {
    "model",
    "prompt",
    "actor",
    "tool",
    "principal",
    "client",
    "holder",
    "claimed_by",
    "ended_by",
    "agents",
    "encoding",
}
"""Of models, prompts, programs and credentials."""
OURS = {
    *("role", "kind", "type", "status", "marker", "trust", "origin", "label", "category", "change", "outcome"),
    *("title_by", "turn_set", "source", "rights", "day", "content_hash", "body_hmac", "digest", "id_hash"),
}
"""Words of which we have a list, and what is counted out of content by one-way functions."""
NO_TEXT = {
    "idempotency": {"answer"},  # ids and numbers
    "journal": {"counts", "reason"},  # numbers, and the class of an error
    "installation": {"name", "value"},
    "search_rows": {"speaker", "session_mark"},  # with the message, as its words and vectors are
    "search_vectors": {"scope_token", "code", "vector"},
    "daily_calls": {"name"},  # of a tool of ours, or of a host
}

TABLES = {table.name: table for table in (*metadata.tables.values(), search_rows, search_vectors, journal)}


def text_columns(table: Table) -> set[str]:
    return {column.name for column in table.c if isinstance(column.type, Text | LargeBinary)}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_each_column_of_a_table_has_its_form_or_holds_no_content(name: str) -> None:
    columns, listed = text_columns(TABLES[name]), set(CONTENT.get(name, ()))
    plain = columns & (IDS | NAMES | OURS | NO_TEXT.get(name, set()))
    assert columns - listed - plain == set(), "say of each whether it holds content, in CONTENT or here"
    assert listed <= columns
    assert not listed & plain


def test_only_tables_that_there_are_are_listed() -> None:
    assert CONTENT.keys() | NO_TEXT.keys() | _BESIDE.keys() <= TABLES.keys()
    assert {*IDS, *NAMES, *OURS} <= {column for table in TABLES.values() for column in text_columns(table)}
    assert all(set(columns) <= set(TABLES[name].c.keys()) for name, columns in _BESIDE.items())
