"""The tables of background work: the jobs themselves, and what models and digests make of messages."""

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from layerlore.storage.table_parts import SCOPE, THREAD, metadata, of_message, of_thread, scope_columns

_dropped = text("status = 'dropped'")
_due = text("requested_seq > done_seq AND dead_at IS NULL")

# Background work: one row for each thread (or, with an empty ``thread_uid``, resource) and kind. It is due while more
# is requested than done. The rows of a thread are erased with it by code: an empty uid is no thread.
jobs = Table(
    "jobs",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("requested_seq", BigInteger, nullable=False),
    Column("done_seq", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),  # counts the claims: the fence
    Column("holder", Text),  # of the newest claim, until it ends
    Column("lease_until", BigInteger),
    Column("claimed_seq", BigInteger),  # what was requested when the newest claim was made
    Column("attempts", BigInteger, nullable=False),  # that failed since it was last done
    Column("dead_at", BigInteger),
    Column("error", Text),  # of the last attempt; no text of a message
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*THREAD, "kind"),
    Index("jobs_due", "due_at", sqlite_where=_due, postgresql_where=_due),
    Index("jobs_due_of_tenant", "tenant_id", "due_at", sqlite_where=_due, postgresql_where=_due),
)

# When a resource's work was last taken up: who waited longest is next.
job_turns = Table(
    "job_turns",
    metadata,
    *scope_columns(),
    Column("served_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE),
)

# What background work of the whole installation has cost on a day (YYYY-MM-DD, UTC).
spending = Table(
    "spending",
    metadata,
    Column("day", Text, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("cost_nano_usd", BigInteger, nullable=False),
)

# The tokens of it that each tenant's work took: an allowance is held against it.
tenant_spending = Table(
    "tenant_spending",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("day", Text, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "day"),
)

# Bytes of content of a tenant and resource (empty: of the whole tenant): the sum of the parts. The database's triggers
# count; on Postgres each transaction in a part of its own, so that none waits for another.
stored_bytes = Table(
    "stored_bytes",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("resource_id", Text, nullable=False),
    Column("part", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "resource_id", "part"),
)

# Notes on runs of a thread's messages, numbered from 1 in their order.
observations = Table(
    "observations",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("observation_id", BigInteger, nullable=False),
    Column("marker", Text, nullable=False),  # critical, important, info, completion
    Column("text", Text, nullable=False),
    Column("said_at", BigInteger, nullable=False),
    Column("refers_to", Text),
    Column("from_seq", BigInteger, nullable=False),
    Column("to_seq", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("parent_id", BigInteger),
    Column("status", Text, nullable=False),  # buffered, active, superseded, dropped
    Column("superseded_by", BigInteger),
    Column("trust", Text, nullable=False),  # the lowest of its sources: web, tool, assistant, user
    Column("level", Integer, nullable=False),  # 0: observed; n: after n reflections
    Column(
        "batch", BigInteger, nullable=False
    ),  # the observer's cursor after it: it was made from what lies up to this seq
    Column("model", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*THREAD, "observation_id"),
    of_thread(),
    Index("observations_by_status", *THREAD, "status", "observation_id"),
)

# Episodic entries of a resource. Their words and vectors are search rows of the thread ``entry:<entry_id>``, seq 1.
entries = Table(
    "entries",
    metadata,
    *scope_columns(),
    Column("entry_id", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("kind", Text),  # preference, decision, fact, correction, explicit_remember
    Column("status", Text, nullable=False),  # active, superseded, dropped
    Column("superseded_by", Text),
    Column("origin", Text, nullable=False),  # extracted; remembered with evidence; caller: its own word
    Column("trust", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE, "entry_id"),
    Index("entries_by_hash", *SCOPE, "content_hash", unique=True),
    Index("entries_by_status", *SCOPE, "status", "created_at"),
    Index("entries_dropped", "seen_at", sqlite_where=_dropped, postgresql_where=_dropped),
)

# Where in which message an entry is said: offsets into the text that evidence is checked against, no copy of it.
entry_sources = Table(
    "entry_sources",
    metadata,
    *scope_columns(),
    Column("entry_id", Text, nullable=False),
    Column("thread_uid", Text, nullable=False),
    Column("message_seq", BigInteger, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("starts", BigInteger, nullable=False),
    Column("ends", BigInteger, nullable=False),
    Column("label", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE, "entry_id", "thread_uid", "message_seq", "starts"),
    ForeignKeyConstraint(
        (*SCOPE, "entry_id"), [f"entries.{name}" for name in (*SCOPE, "entry_id")], ondelete="CASCADE"
    ),
    of_message(),
    Index("entry_sources_by_message", *THREAD, "message_seq"),
)

# What waits to be written into the session memory.
session_notes = Table(
    "session_notes",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("note_id", BigInteger, nullable=False),
    Column("category", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    Column("to_seq", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*THREAD, "note_id"),
    of_thread(),
)

# Which messages a version of a document was made from: of a session memory, or (empty ``thread_uid``) of the profile.
document_sources = Table(
    "document_sources",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("source_thread_uid", Text, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    Column("to_seq", BigInteger, nullable=False),
    PrimaryKeyConstraint(*THREAD, "version", "source_thread_uid", "from_seq"),
    ForeignKeyConstraint((*SCOPE, "source_thread_uid"), [f"threads.{name}" for name in THREAD], ondelete="CASCADE"),
    Index("document_sources_by_source", *SCOPE, "source_thread_uid"),
)

# Summaries of a thread's beginning, for windows that cut it off.
summaries = Table(
    "summaries",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("upto_seq", BigInteger, nullable=False),
    Column("from_seq", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*THREAD, "upto_seq"),
    of_thread(),
)
