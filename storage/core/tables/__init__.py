"""Every table, once, for both databases: a file for each kind.

Types are chosen so that no value needs converting on its way: ids TEXT, times BIGINT milliseconds, documents JSON
kept as TEXT. ``migrations/`` creates them; a test holds the two equal.
"""

from layerlore.storage.core.tables.audit import (
    WAIT_BOUNDS_MS,
    WAITS,
    api_keys,
    daily_calls,
    daily_usage,
    idempotency,
    installation,
    journal,
    spending,
    stored_bytes,
    tenant_spending,
    usage,
)
from layerlore.storage.core.tables.columns import SCOPE, THREAD, metadata
from layerlore.storage.core.tables.conversations import (
    deletions,
    erased_ids,
    events,
    messages,
    resource_events,
    resources,
    threads,
    undo_parts,
)
from layerlore.storage.core.tables.derived import (
    document_sources,
    entries,
    entry_sources,
    observations,
    search_rows,
    search_vectors,
    session_memories,
    session_notes,
    shared_lines,
    summaries,
    user_profiles,
)
from layerlore.storage.core.tables.work import attempts, job_turns, jobs, plans, runs, steps

__all__ = [
    "SCOPE",
    "THREAD",
    "WAITS",
    "WAIT_BOUNDS_MS",
    "api_keys",
    "attempts",
    "daily_calls",
    "daily_usage",
    "deletions",
    "document_sources",
    "entries",
    "entry_sources",
    "erased_ids",
    "events",
    "idempotency",
    "installation",
    "job_turns",
    "jobs",
    "journal",
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
    "shared_lines",
    "spending",
    "steps",
    "stored_bytes",
    "summaries",
    "tenant_spending",
    "threads",
    "undo_parts",
    "usage",
    "user_profiles",
]
