"""The table of who wrote what when. No content is in it."""

from sqlalchemy import BigInteger, Column, MetaData, Table, Text

# A row for each write, whoever made it, and for each that was refused. Triggers hold it to being appended to; nothing
# refers to it, and it outlives what it tells of: of a resource it knows only a mark. On Postgres, where many tenants may
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
