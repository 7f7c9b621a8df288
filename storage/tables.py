"""Every table, once, for both databases. The search index and its rows are each database's own (search_*.py).

Types are chosen so that no value needs converting on its way: ids TEXT, times BIGINT milliseconds, documents JSON
kept as TEXT. ``migrations/`` creates them; a test holds the two equal.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from layerlore.storage.access_tables import api_keys
from layerlore.storage.derived_tables import (
    document_sources,
    entries,
    entry_sources,
    job_turns,
    jobs,
    observations,
    session_notes,
    spending,
    stored_bytes,
    summaries,
    tenant_spending,
)
from layerlore.storage.table_parts import SCOPE, THREAD, metadata, of_message, of_thread, scope_columns

__all__ = [
    "SCOPE",
    "THREAD",
    "api_keys",
    "attempts",
    "deletions",
    "document_sources",
    "entries",
    "entry_sources",
    "events",
    "idempotency",
    "installation",
    "job_turns",
    "jobs",
    "messages",
    "metadata",
    "observations",
    "plans",
    "resource_events",
    "resources",
    "runs",
    "search_rows",
    "search_vectors",
    "session_memories",
    "session_notes",
    "spending",
    "steps",
    "stored_bytes",
    "summaries",
    "tenant_spending",
    "threads",
    "usage",
    "user_profiles",
]

_from_user = text("role = 'user' AND deletion_uid IS NULL")
_hidden = text("deletion_uid IS NOT NULL")


def _counter(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=text("0"))


installation = Table(
    "installation",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

threads = Table(
    "threads",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("title", Text().with_variant(Text(collation="C"), "postgresql")),
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
    Column("title_by", Text),  # caller, extractive, or the model that made the title; null: there is none
    PrimaryKeyConstraint(*THREAD),
    Index(
        "threads_live_name",
        *SCOPE,
        "thread_id",
        unique=True,
        sqlite_where=text("deletion_uid IS NULL"),
        postgresql_where=text("deletion_uid IS NULL"),
    ),
    Index("threads_by_update", *SCOPE, "updated_at"),
)

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
    PrimaryKeyConstraint(*THREAD, "seq"),
    ForeignKeyConstraint(THREAD, [f"threads.{name}" for name in THREAD], ondelete="CASCADE"),
    Index("messages_by_id", *THREAD, "id", unique=True),
    Index("messages_from_user", *THREAD, "seq", sqlite_where=_from_user, postgresql_where=_from_user),
    Index("messages_hidden", *THREAD, "seq", sqlite_where=_hidden, postgresql_where=_hidden),
)

# What is searched: a row for each chunk of a message's text. Its words are beside it, in each database's own way.
search_rows = Table(
    "search_rows",
    MetaData(),
    Column("row_id", BigInteger, primary_key=True),  # never given again
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("chunk", Integer, nullable=False),
    Column("text_version", Integer, nullable=False),
    Column("role", Text, nullable=False),
    Column("speaker", Text),
    Column("said_at", BigInteger, nullable=False),
    Column("chars", Integer, nullable=False),  # of the whole message's text
    Column("session_seq", BigInteger, nullable=False),  # the seq that the session began with
    Column("session_mark", Text),  # what the thread itself calls the session
)

# The vectors of the rows, one for each model; ``code`` is one bit a dimension, whether it is above zero.
search_vectors = Table(
    "search_vectors",
    search_rows.metadata,
    Column("row_id", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("scope_token", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("code", LargeBinary, nullable=False),  # bit varying on Postgres
    Column("vector", LargeBinary, nullable=False),  # float32, little endian
    PrimaryKeyConstraint("row_id", "model"),
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

# The answer to a write, kept so that the same request sent again gets it again. No text of a message is in it.
idempotency = Table(
    "idempotency",
    metadata,
    *scope_columns(),
    Column("key", Text, nullable=False),
    Column("body_hmac", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE, "key"),
    Index("idempotency_by_time", "created_at"),
)

# What an agent serves, once something of it changed: its events' counter.
resources = Table(
    "resources",
    metadata,
    *scope_columns(),
    Column("next_event_seq", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE),
)

# What changed, in order and without a gap, given under the row lock of the thread (or of the resource, below).
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
    Index(
        "events_by_message",
        *THREAD,
        "message_seq",
        sqlite_where=text("message_seq IS NOT NULL"),
        postgresql_where=text("message_seq IS NOT NULL"),
    ),
)

# The same of what belongs to a resource: its profile, and the coming and going of threads (whose events go with them).
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
    Index(
        "resource_events_by_thread",
        *THREAD,
        sqlite_where=text("thread_uid IS NOT NULL"),
        postgresql_where=text("thread_uid IS NOT NULL"),
    ),
)


def _versions(name: str, owner: tuple[str, ...], *more: Column[str] | ForeignKeyConstraint) -> Table:
    """Versions of a working memory document: the newest is the current one."""
    return Table(
        name,
        metadata,
        *scope_columns(),
        *more,
        Column("version", BigInteger, nullable=False),
        Column("content", Text, nullable=False),
        Column("change", Text, nullable=False),  # replace, append, restore, clear; cleared: what was before is erased
        Column("actor", Text, nullable=False),
        Column("tool", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        PrimaryKeyConstraint(*owner, "version"),
        Index(f"{name}_cleared", "created_at", sqlite_where=_cleared, postgresql_where=_cleared),
    )


_cleared = text("change = 'clear'")
session_memories = _versions("session_memories", THREAD, Column("thread_uid", Text, nullable=False), of_thread())
user_profiles = _versions("user_profiles", SCOPE)

# Revisions of a thread's plan: the newest is the plan that is open.
plans = Table(
    "plans",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("plan", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*THREAD, "revision"),
    of_thread(),
)

# The iteration log.
attempts = Table(
    "attempts",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("task_key", Text, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("action", Text, nullable=False),
    Column("result", Text, nullable=False),
    Column("error", Text),
    Column("diagnosis", Text),
    Column("fix_applied", Text),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*THREAD, "task_key", "attempt"),
    of_thread(),
)

# Runs of agents. A run's id is its scope's, not its thread's: who resumes it need not know the thread.
runs = Table(
    "runs",
    metadata,
    *scope_columns(),
    Column("run_id", Text, nullable=False),
    Column("thread_uid", Text, nullable=False),
    Column("workflow_id", Text, nullable=False),  # empty: none
    Column("status", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("state", Text),  # the checkpoint; null once the run has ended
    Column("pending", Text, nullable=False),  # the tool calls that wait
    Column("resumed", Text, nullable=False),  # what resumers brought since the run was suspended
    Column("reason", Text),
    Column("output", Text),
    Column("epoch", BigInteger, nullable=False),  # counts the claims
    Column("claim", Text),  # the token of the newest claim; null before the first
    Column("claimed_by", Text),
    Column("claimed_at", BigInteger),
    Column("claimed_until", BigInteger),
    Column("expires_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE, "run_id"),
    of_thread(),
    Index("runs_by_time", *SCOPE, "created_at", "run_id"),
    Index("runs_by_thread", *THREAD),
    Index(
        "runs_by_expiry",
        "expires_at",
        sqlite_where=text("expires_at IS NOT NULL"),
        postgresql_where=text("expires_at IS NOT NULL"),
    ),
)

# What agents did, step by step.
steps = Table(
    "steps",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("operation_id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("message_seq", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*THREAD, "seq"),
    of_thread(),
    of_message(),
    Index("steps_by_operation", *THREAD, "operation_id", "seq"),
    Index(
        "steps_by_message",
        *THREAD,
        "message_seq",
        sqlite_where=text("message_seq IS NOT NULL"),
        postgresql_where=text("message_seq IS NOT NULL"),
    ),
)

# Tokens and money spent, a row for each thread, model and source. What was spent stays spent when a thread is erased.
usage = Table(
    "usage",
    metadata,
    *scope_columns(),
    Column("thread_uid", Text, nullable=False),  # empty: of no thread
    Column("model", Text, nullable=False),
    Column("source", Text, nullable=False),  # "steps", or the kind of a background job
    Column("calls", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost_nano_usd", BigInteger, nullable=False),
    Column("unpriced_calls", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*THREAD, "model", "source"),
)
