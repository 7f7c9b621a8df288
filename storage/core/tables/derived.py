"""The tables of data made from messages, and of the search index."""

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

from layerlore.storage.core.tables.columns import (
    SCOPE,
    THREAD,
    metadata,
    of_message,
    of_thread,
    partial_index,
    scope_columns,
)

_cleared = text("change = 'clear'")


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
        partial_index(f"{name}_cleared", "created_at", where=_cleared),
    )


session_memories = _versions("session_memories", THREAD, Column("thread_uid", Text, nullable=False), of_thread())
user_profiles = _versions("user_profiles", SCOPE)

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

# Notes that wait to be written into the session memory.
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

_dropped = text("status = 'dropped'")
_pinned = text("pinned_at IS NOT NULL")

# Episodic entries of a resource. Their words and vectors are search rows of the thread ``entry:<entry_id>``, seq 1.
entries = Table(
    "entries",
    metadata,
    *scope_columns(),
    Column("entry_id", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("kind", Text),  # preference, decision, fact, correction, explicit_remember
    Column("status", Text, nullable=False),  # active, superseded, dropped; wrong: the user marked it so
    Column("superseded_by", Text),
    Column("origin", Text, nullable=False),  # extracted; remembered with evidence; caller: its own word; shared
    Column("trust", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("pinned_at", BigInteger),
    Column("expires_at", BigInteger),  # after that it is not shown
    Column("unproven", Text),  # a JSON list: names and numbers that no quotation contains
    Column("subject", Text),  # of the thread in which it was stored, if that has one
    PrimaryKeyConstraint(*SCOPE, "entry_id"),
    Index("entries_by_hash", *SCOPE, "content_hash"),
    Index("entries_by_status", *SCOPE, "status", "created_at"),
    partial_index("entries_dropped", "seen_at", where=_dropped),
    partial_index("entries_pinned", *SCOPE, "pinned_at", where=_pinned),
)

# The places of an entry in messages: offsets into the text that evidence is checked against, no copy of it.
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

# The entries that a resource shares through a file: each line by its id. ``entry_id``: the entry that says it; of what
# was forgotten both are null. ``own``: whether it was written here; of the document: its version here.
shared_lines = Table(
    "shared_lines",
    metadata,
    *scope_columns(),
    Column("share_id", Text, nullable=False),
    Column("entry_id", Text),
    Column("own", Integer, nullable=False),
    Column("line", Text),
    PrimaryKeyConstraint(*SCOPE, "share_id"),
    Index("shared_lines_by_entry", *SCOPE, "entry_id"),
)

# The searched text: a row for each chunk of a message's text. Its words are beside it, in each database's own way.
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
    # These are of the whole message's text, too: see ``core.records.IndexedText``.
    Column("asks", Integer, nullable=False, server_default=text("0")),
    Column("empty", Integer, nullable=False, server_default=text("0")),
    Column("content_words", Integer, nullable=False, server_default=text("0")),
)

# The vectors of the rows, one for each model; ``code`` is one bit a dimension, whether it is above zero. SQLite stores no
# tenant here: a vector hangs on its row's id, which leads the key there.
search_vectors = Table(
    "search_vectors",
    search_rows.metadata,
    Column("tenant_id", Text, nullable=False),
    Column("row_id", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("scope_token", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("code", LargeBinary, nullable=False),  # bit varying on Postgres
    Column("vector", LargeBinary, nullable=False),  # numbers of 16 bits, little endian
    PrimaryKeyConstraint("tenant_id", "row_id", "model"),
)
