"""Tools about threads."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from layerlore.server.tools.declaring import (
    OBJECT_OR_TEXT,
    Declaration,
    FreeObject,
    ThreadId,
    Usage,
    annotations,
)
from layerlore.server.tools.leaving_out import EMPTY_SAYS
from layerlore.server.tools.stored_content import Stored

RawWindow = Annotated[
    Any,
    WithJsonSchema(
        {
            **OBJECT_OR_TEXT,
            "description": 'What models see: {"limit":"messages","max_messages":20}, or a profile\'s name; "" removes it.',
        }
    ),
    EMPTY_SAYS,
]


class ThreadRow(TypedDict):
    thread_id: str
    title: NotRequired[Stored[str]]
    metadata: NotRequired[Stored[dict[str, Any]]]
    window: NotRequired[Stored[str | dict[str, Any]]]
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
    thread_id: str = "",
    metadata: FreeObject = {},  # noqa: B006
    order_by: Literal["created_at", "updated_at", "title"] = "updated_at",
    descending: bool = True,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    cursor: str = "",
) -> ThreadPage:
    """List conversations, those with this metadata, or one: title, metadata and counts. `next_cursor` continues."""


def update_thread(
    thread_id: ThreadId = "",
    title: Annotated[str, Field(description='"" removes it.'), EMPTY_SAYS] = "",
    metadata: Annotated[FreeObject, Field(description="Merged in; null removes a key.")] = {},  # noqa: B006
    window: RawWindow = None,
) -> UpdatedThread:
    """Set a conversation's title, metadata or window; it is made if absent. What is left out stays."""


def delete_thread(
    thread_id: Annotated[str, Field(min_length=1)],
) -> DeletedThread:
    """Delete a conversation with all kept about it; delete_messages(which=undo) restores it."""


TOOLS = (
    Declaration(list_threads, "List threads", "threads", "read", annotations(read_only=True, idempotent=True)),
    Declaration(
        update_thread,
        "Update thread",
        "threads",
        "write",
        annotations(idempotent=True),
        reduced="no title, metadata or window",
    ),
    Declaration(delete_thread, "Delete thread", "threads", "forget", annotations(destructive=True)),
)
