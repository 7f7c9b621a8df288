"""Tools about threads."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from memstrata.server.tools.declaring import Declaration, ThreadId, Usage, annotations

RawWindow = Annotated[
    Any,
    WithJsonSchema(
        {
            "description": 'What the model sees of it: {"limit":"messages","max_messages":20}, or the name of a profile; '
            '"" removes it.'
        }
    ),
]


class ThreadRow(TypedDict):
    thread_id: str
    title: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]
    window: NotRequired[str | dict[str, Any]]
    messages: int
    tokens: int
    created_at: str
    updated_at: str


class ListedThread(ThreadRow):
    usage: NotRequired[Usage]


class UpdatedThread(ThreadRow):
    masked: NotRequired[int]


class ThreadPage(TypedDict):
    threads: list[ListedThread]
    next_cursor: NotRequired[str]


class DeletedThread(TypedDict):
    thread_id: str
    deleted_messages: int
    deletion: NotRequired[str]
    restorable_until: NotRequired[str]


def list_threads(
    thread_id: Annotated[str, Field(description="Only this one.")] = "",
    metadata: Annotated[dict[str, Any], Field(description="Keys and values that must be equal.")] = {},  # noqa: B006
    order_by: Literal["created_at", "updated_at", "title"] = "updated_at",
    descending: bool = True,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    cursor: str = "",
) -> ThreadPage:
    """List conversations with title, metadata and counts. `next_cursor` continues a long list."""


def update_thread(
    thread_id: ThreadId = "",
    title: Annotated[str, Field(description='"" removes it.')] = "",
    metadata: Annotated[dict[str, Any], Field(description="Merged in; null removes a key.")] = {},  # noqa: B006
    window: RawWindow = None,
) -> UpdatedThread:
    """Set a conversation's title, metadata or window; it is made if absent. What is left out stays."""


def delete_thread(
    thread_id: Annotated[str, Field(min_length=1)],
) -> DeletedThread:
    """Delete a whole conversation and everything kept about it. Hidden at once; the operator can restore it for a
    while."""


TOOLS = (
    Declaration(list_threads, "List threads", "threads", "read", annotations(read_only=True, idempotent=True)),
    Declaration(update_thread, "Update thread", "threads", "write", annotations(idempotent=True)),
    Declaration(delete_thread, "Delete thread", "threads", "forget", annotations(destructive=True)),
)
