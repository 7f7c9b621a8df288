"""The tables of agents' work (plans, attempts, runs, steps) and of background jobs."""

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from layerlore.storage.core.tables.columns import (
    SCOPE,
    THREAD,
    metadata,
    of_message,
    of_thread,
    partial_index,
    scope_columns,
)

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
    # 1 for the newest revision while one of its steps is open.
    Column("is_open", Integer, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint(*THREAD, "revision"),
    of_thread(),
    partial_index("plans_open", *SCOPE, "created_at", where=text("is_open = 1")),
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
    Column("state", Text),  # the checkpoint; null before the first, and once the run has ended
    Column("pending", Text, nullable=False),  # the tool calls that wait
    Column("resumed", Text, nullable=False),  # the answers to them
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
    Column("answered", Text, nullable=False, server_default=text("'[]'")),  # the ids of the calls that have answers
    Column("usage", Text, nullable=False, server_default=text("'[]'")),  # what was spent, by sub-agent and model
    Column("parent_run_id", Text),  # the run whose sub-agent this one is
    Column("ended_by", Text),
    PrimaryKeyConstraint(*SCOPE, "run_id"),
    of_thread(),
    Index("runs_by_time", *SCOPE, "created_at", "run_id"),
    Index("runs_by_thread", *THREAD),
    partial_index("runs_suspended", *SCOPE, "updated_at", where=text("status = 'suspended'")),
    partial_index("runs_by_parent", *SCOPE, "parent_run_id", where=text("parent_run_id IS NOT NULL")),
    partial_index(
        "runs_by_expiry",
        "expires_at",
        where=text("expires_at IS NOT NULL"),
    ),
)

# The work of agents, step by step.
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
    partial_index(
        "steps_by_message",
        *THREAD,
        "message_seq",
        where=text("message_seq IS NOT NULL"),
    ),
)

_due = text("requested_seq > done_seq AND dead_at IS NULL")
_is_held = text("lease_until IS NOT NULL")

# Background work: one row for each thread (or, with an empty ``thread_uid``, resource) and kind. It is due while more
# is requested than done. The rows of a thread are erased with it by code: an empty uid is not a thread.
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
    partial_index("jobs_due_of_kind", "kind", "due_at", where=_due),
    partial_index("jobs_held", "lease_until", where=_is_held),
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
