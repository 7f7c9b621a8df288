"""The tables of the search index. Each database keeps the words beside them in its own way."""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, PrimaryKeyConstraint, Table, Text, text

from layerlore.storage.core.tables.columns import scope_columns

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
    # Of the whole message's text, too: see ``core.records.Indexed``.
    Column("asks", Integer, nullable=False, server_default=text("0")),
    Column("empty", Integer, nullable=False, server_default=text("0")),
    Column("content_words", Integer, nullable=False, server_default=text("0")),
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
