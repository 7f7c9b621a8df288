"""The tables of threads and their messages, of deletions, and of the log of changes."""

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from layerlore.storage.core.statements import BytewiseText
from layerlore.storage.core.tables.columns import (
    SCOPE,
    THREAD,
    metadata,
    of_message,
    of_thread,
    partial_index,
    scope_columns,
)


def _counter(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=text("0"))


threads = Table(
    "threads",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("title", BytewiseText),
    Column("metadata", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("next_seq", BigInteger, nullable=False),
    Column("last_created_at", BigInteger, nullable=False),
    Column("message_count", BigInteger, nullable=False),
    Column("token_count", BigInteger, nullable=False),
    Column("deletion_uid", Text),
    Column("next_event_seq", BigInteger, nullable=False, server_default=text("1")),
    Column("next_step_seq", BigInteger, nullable=False, server_default=text("1")),
    Column("window_policy", Text),  # the name of a profile or a whole policy, as JSON; null: the server's default
    # How far background work has come: the last seq that each kind has taken in. ``raw_tokens`` are those of the
    # messages behind ``observed_seq``.
    _counter("raw_tokens"),
    _counter("observed_seq"),
    _counter("buffered_seq"),
    _counter("buffered_chars"),  # of the message behind ``buffered_seq``, where a long one is observed in pieces
    _counter("entries_seq"),
    _counter("profile_seq"),
    _counter("session_seq"),
    Column("current_task", Text),
    Column("next_step", Text),
    Column("title_by", Text),  # caller, extractive, or the model that made the title; null: no title
    PrimaryKeyConstraint(*THREAD),
    partial_index(
        "threads_live_name",
        *SCOPE,
        "thread_id",
        unique=True,
        where=text("deletion_uid IS NULL"),
    ),
    Index("threads_by_update", *SCOPE, "updated_at"),
)

_from_user = text("role = 'user' AND deletion_uid IS NULL")
_hidden = text("deletion_uid IS NOT NULL")

messages = Table(
    "messages",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("name", Text),
    Column("parts", Text, nullable=False),
    # Ids of tool calls whose other half was deleted: their parts in this message are hidden from every reader.
    Column("hidden_calls", Text),
    Column("metadata", Text, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("encoding", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("said_at", BigInteger, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("deletion_uid", Text),
    # The turn that it belongs to, as the caller named it, and whether it went into that or came out of it.
    Column("turn", Text),
    Column("turn_set", Text),
    PrimaryKeyConstraint(*THREAD, "seq"),
    ForeignKeyConstraint(THREAD, [f"threads.{name}" for name in THREAD], ondelete="CASCADE"),
    Index("messages_by_id", *THREAD, "id", unique=True),
    Index("messages_by_time", *SCOPE, "said_at", "thread_uid", "seq"),
    partial_index("messages_from_user", *THREAD, "seq", where=_from_user),
    partial_index("messages_hidden", *THREAD, "seq", where=_hidden),
    partial_index("messages_of_turns", *THREAD, "turn", "seq", where=text("turn IS NOT NULL")),
)

# Hashes of the ids of erased messages, and of calls whose other half was erased: sending one of them again does not
# bring it back.
erased_ids = Table(
    "erased_ids",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("id_hash", Text, nullable=False),
    PrimaryKeyConstraint(*THREAD, "id_hash"),
    ForeignKeyConstraint(THREAD, [f"threads.{name}" for name in THREAD], ondelete="CASCADE"),
)

# One row for each delete: what it hid can be restored until ``retention.deleted_days`` have passed.
deletions = Table(
    "deletions",
    metadata,
    *scope_columns(),
    Column("deletion_uid", Text, nullable=False),
    Column("thread_uid", Text, nullable=False),
    Column("kind", Text, nullable=False),  # "messages" or "thread"
    Column("message_count", BigInteger, nullable=False),
    Column("deleted_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE, "deletion_uid"),
    ForeignKeyConstraint(THREAD, [f"threads.{name}" for name in THREAD], ondelete="CASCADE"),
    Index("deletions_by_time", "deleted_at"),
)

# The changes of one call that can be undone, a row for each change: places of what is stored, never content. It cannot
# be undone after ``retention.deleted_days``.
undo_parts = Table(
    "undo_parts",
    metadata,
    *scope_columns(),
    Column("undo_id", Text, nullable=False),
    Column("part", Integer, nullable=False),
    Column("kind", Text, nullable=False),  # deletion, document, plan, dropped, superseded, kept, refreshed
    Column("ref", Text, nullable=False),  # the id of the delete or the entry, else empty
    Column("thread_uid", Text),  # of a delete, a session memory or a plan
    Column("before_version", BigInteger, nullable=False),  # of a document or a plan, else 0
    Column("after_version", BigInteger, nullable=False),
    Column("tool", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("undone_at", BigInteger),
    PrimaryKeyConstraint(*SCOPE, "undo_id", "part"),
    ForeignKeyConstraint(THREAD, [f"threads.{name}" for name in THREAD], ondelete="CASCADE"),
    Index("undo_parts_by_time", *SCOPE, "created_at"),
    Index("undo_parts_by_ref", *SCOPE, "ref"),
    partial_index("undo_parts_by_thread", *THREAD, where=text("thread_uid IS NOT NULL")),
)

# The resources that an agent serves, once something of them changed: its events' counter.
resources = Table(
    "resources",
    metadata,
    *scope_columns(),
    Column("next_event_seq", BigInteger, nullable=False),
    # How many messages a rule of retention has taken away.
    Column("retired_messages", BigInteger, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint(*SCOPE),
)

# The changes, numbered in order and without a gap under the row lock of the thread (or of the resource, below).
events = Table(
    "events",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("actor", Text, nullable=False),  # the client, or the job
    Column("tool", Text, nullable=False),  # the tool or command; empty for a job
    Column("payload", Text, nullable=False),
    Column("message_seq", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*THREAD, "seq"),
    of_thread(),
    of_message(),
    partial_index(
        "events_by_message",
        *THREAD,
        "message_seq",
        where=text("message_seq IS NOT NULL"),
    ),
)

# Events of a resource: of its profile, and of the coming and going of threads (whose own events go with them).
resource_events = Table(
    "resource_events",
    metadata,
    *scope_columns(),
    Column("seq", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("thread_uid", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE, "seq"),
    of_thread(),
    partial_index(
        "resource_events_by_thread",
        *THREAD,
        where=text("thread_uid IS NOT NULL"),
    ),
)
