"""The columns that every tenant's table begins with, what a row goes with, and the columns that hold content: the text of
messages, or text made from it.

Other columns hold ids, names of models and programs, numbers and words of ours. A test knows every column.
"""

from dataclasses import dataclass
from typing import Literal

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


Form = Literal["text", "json", "parts", "body", "document", "window"]
"""``text``, or JSON as text: any (``json``), a message's parts, a step's body, a window's policy; a ``document`` is
either, as its settings say."""


@dataclass(frozen=True, slots=True)
class ContentColumn:
    """``as_sent``: the columns that ``redaction = "derived"`` keeps as they were sent. All else counts as made of
    that."""

    form: Form
    as_sent: bool = False

    @property
    def is_json(self) -> bool:
        """Whether the column always holds JSON."""
        return self.form not in ("text", "document")


_sent_text = ContentColumn("text", as_sent=True)
_sent_json = ContentColumn("json", as_sent=True)
_made_text = ContentColumn("text")

CONTENT: dict[str, dict[str, ContentColumn]] = {
    "threads": {
        "title": _made_text,
        "metadata": _sent_json,
        "window_policy": ContentColumn("window", as_sent=True),
        "current_task": _made_text,
        "next_step": _made_text,
    },
    "messages": {
        "name": _sent_text,
        "parts": ContentColumn("parts", as_sent=True),
        "hidden_calls": _sent_json,
        "metadata": _sent_json,
    },
    "observations": {"text": _made_text, "refers_to": _made_text},
    "summaries": {"text": _made_text},
    "session_notes": {"text": _made_text},
    "session_memories": {"content": ContentColumn("document")},
    "user_profiles": {"content": ContentColumn("document")},
    "entries": {"content": _made_text, "unproven": ContentColumn("json"), "subject": _made_text},
    "shared_lines": {"line": ContentColumn("json")},
    "plans": {"plan": _sent_json},
    "attempts": dict.fromkeys(("task_key", "action", "result", "error", "diagnosis", "fix_applied"), _sent_text),
    "runs": {
        **dict.fromkeys(("metadata", "state", "pending", "resumed", "answered", "usage", "output"), _sent_json),
        **dict.fromkeys(("workflow_id", "reason"), _sent_text),
    },
    "steps": {"operation_id": _sent_text, "body": ContentColumn("body", as_sent=True)},
    "events": {"payload": _sent_json},
    "resource_events": {"payload": _sent_json},
    "jobs": {"error": _made_text},
}
"""The content columns by table. The search index (``search_rows``, their words and vectors) is made from messages and
entries, and changes with them."""
