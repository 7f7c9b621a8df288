"""The tables of background jobs."""

from sqlalchemy import BigInteger, Column, PrimaryKeyConstraint, Table, Text, text

from layerlore.storage.core.tables.columns import SCOPE, THREAD, metadata, partial_index, scope_columns

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
    partial_index("jobs_due", "due_at", where=_due),
    partial_index("jobs_due_of_tenant", "tenant_id", "due_at", where=_due),
)

# When a resource's work was last taken up: who waited longest is next.
job_turns = Table(
    "job_turns",
    metadata,
    *scope_columns(),
    Column("served_at", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE),
)
