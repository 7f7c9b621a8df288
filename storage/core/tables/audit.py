"""The tables of the installation, of who may call it, and of who used how much of it. They hold no text of messages."""

from sqlalchemy import BigInteger, Column, Index, MetaData, PrimaryKeyConstraint, Table, Text, UniqueConstraint

from layerlore.storage.core.tables.columns import SCOPE, THREAD, metadata, scope_columns

installation = Table(
    "installation",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

# A key is found by its digest, before its owner is known: so its own id leads, not the tenant's.
api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 of the whole key, in hex
    Column("tenant_id", Text, nullable=False),
    Column("agents", Text),  # a JSON list; null: any agent of the tenant
    Column("resource_id", Text),  # null: any resource of the tenant
    Column("rights", Text, nullable=False),  # with commas
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    PrimaryKeyConstraint("key_id"),
    UniqueConstraint("digest"),
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

# A row for each write, and for each refused write. Triggers hold it to being appended to; nothing
# refers to it, and it outlives what it names: of a resource it knows only a mark. On Postgres, where many tenants may
# share it, it has an index on tenant and time; on SQLite that would cost each write more than a look at all rows costs.
journal = Table(
    "journal",
    MetaData(),
    Column("row_id", BigInteger, primary_key=True),  # never given again
    Column("tenant_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),  # empty: a refused call named none that it may
    Column("resource_mark", Text, nullable=False),  # HMAC of the resource's id
    Column("at", BigInteger, nullable=False),
    Column("principal", Text, nullable=False),
    Column("client", Text, nullable=False),  # what it calls itself
    Column("tool", Text, nullable=False),
    Column("counts", Text, nullable=False),  # a JSON object of numbers
    Column("outcome", Text, nullable=False),
    Column("reason", Text),  # the class of the error
)

# Tokens and money spent, a row for each thread, model and source. The cost stays when a thread is erased.
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

# The same for each day (whole days since 1970, of UTC) and source, kept for a limited number of days.
daily_usage = Table(
    "daily_usage",
    metadata,
    *scope_columns(),
    Column("day", BigInteger, nullable=False),
    Column("source", Text, nullable=False),
    Column("calls", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost_nano_usd", BigInteger, nullable=False),
    Column("unpriced_calls", BigInteger, nullable=False),
    PrimaryKeyConstraint(*SCOPE, "day", "source"),
)

WAIT_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
WAITS = (*(f"within_{bound}" for bound in WAIT_BOUNDS_MS), "slower")
"""The columns that count calls by how long they took: each those above the bound before it, up to its own in
milliseconds."""

# How often each tool was called on a day, and how long it took; what hooks of each host showed and kept.
daily_calls = Table(
    "daily_calls",
    metadata,
    *scope_columns(),
    Column("day", BigInteger, nullable=False),
    Column("source", Text, nullable=False),  # "tool" or "hook"
    Column("name", Text, nullable=False),  # of the tool, or of the host
    Column("calls", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),  # shown to a model
    Column("messages", BigInteger, nullable=False),  # kept by hooks
    *(Column(name, BigInteger, nullable=False) for name in WAITS),
    PrimaryKeyConstraint(*SCOPE, "day", "source", "name"),
)

# The cost of the whole installation's background work on a day (YYYY-MM-DD, UTC).
spending = Table(
    "spending",
    metadata,
    Column("day", Text, primary_key=True),
    Column("tokens", BigInteger, nullable=False),
    Column("cost_nano_usd", BigInteger, nullable=False),
)

# The tokens that the background work of each tenant took on a day: an allowance is compared with them.
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
