"""The tables of what changed, in the order in which it changed."""

from sqlalchemy import BigInteger, Column, PrimaryKeyConstraint, Table, Text, text

from layerlore.storage.core.tables.columns import (
    SCOPE,
    THREAD,
    metadata,
    of_message,
    of_thread,
    partial_index,
    scope_columns,
)

# What an agent serves, once something of it changed: its events' counter.
resources = Table(
    "resources",
    metadata,
    *scope_columns(),
    Column("next_event_seq", BigInteger, nullable=False),
    # How many messages a rule of retention has taken away.
    Column("retired_messages", BigInteger, nullable=False, server_default=text("0")),
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
