"""The columns that the tables have in common: the columns that every tenant's table begins with, and what a row goes
with."""

from sqlalchemy import Column, ColumnElement, ForeignKeyConstraint, Index, MetaData, Text, TextClause

metadata = MetaData()

SCOPE = ("tenant_id", "agent_id", "resource_id")
THREAD = (*SCOPE, "thread_uid")


def scope_columns() -> tuple[Column[str], Column[str], Column[str]]:
    return (
        Column("tenant_id", Text, nullable=False),
        Column("agent_id", Text, nullable=False),
        Column("resource_id", Text, nullable=False),
    )


def of_thread() -> ForeignKeyConstraint:
    """A row of a thread goes when the thread is erased."""
    return ForeignKeyConstraint(THREAD, [f"threads.{name}" for name in THREAD], ondelete="CASCADE")


def of_message() -> ForeignKeyConstraint:
    """A row that was made from a message (``message_seq``; null: from none) goes when the message is erased."""
    target = [f"messages.{name}" for name in (*THREAD, "seq")]
    return ForeignKeyConstraint((*THREAD, "message_seq"), target, ondelete="CASCADE")


def partial_index(name: str, *columns: str, where: TextClause | ColumnElement[bool], unique: bool = False) -> Index:
    """An index on the rows for which ``where`` holds, which is stored in its ``info``: each database writes such
    indexes in its migrations."""
    return Index(name, *columns, unique=unique, info={"where": where})
