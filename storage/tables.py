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
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

metadata = MetaData()


def _scope_columns() -> tuple[Column[str], Column[str], Column[str]]:
    return (
        Column("tenant_id", Text, nullable=False),
        Column("agent_id", Text, nullable=False),
        Column("resource_id", Text, nullable=False),
    )


SCOPE = ("tenant_id", "agent_id", "resource_id")
THREAD = (*SCOPE, "thread_uid")

installation = Table(
    "installation",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

threads = Table(
    "threads",
    metadata,
    *_scope_columns(),
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
    *_scope_columns(),
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
)

# What is searched: a row for each indexed message. Its words are beside it, in each database's own way.
search_rows = Table(
    "search_rows",
    MetaData(),
    Column("row_id", BigInteger, primary_key=True),
    *_scope_columns(),
    Column("thread_uid", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("text_version", Integer, nullable=False),
)

# One row for each delete: what it hid can be restored until ``retention.deleted_days`` have passed.
deletions = Table(
    "deletions",
    metadata,
    *_scope_columns(),
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
    *_scope_columns(),
    Column("key", Text, nullable=False),
    Column("body_hmac", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE, "key"),
    Index("idempotency_by_time", "created_at"),
)
