"""Tools about threads."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from layerlore.server.process.late_modules import LateModule
from layerlore.server.tools.arguments import EMPTY_SAYS
from layerlore.server.tools.call import Call
from layerlore.server.tools.declaration import OBJECT_OR_TEXT, FreeObject, ThreadId, Usage, tool
from layerlore.server.tools.stored_content import Stored
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json

if TYPE_CHECKING:
    from layerlore.memory.messages import threads
    from layerlore.memory.removal import deletion
else:
    threads = LateModule("layerlore.memory.messages.threads")
    deletion = LateModule("layerlore.memory.removal.deletion")

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


@tool("List threads", "threads", "read", answers=ThreadPage)
async def list_threads(
    call: Call,
    thread_id: str = "",
    metadata: FreeObject = {},  # noqa: B006
    order_by: Literal["created_at", "updated_at", "title"] = "updated_at",
    descending: bool = True,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    cursor: str = "",
) -> Json:
    """List conversations, those with this metadata, or one: title, metadata and counts. `next_cursor` continues."""
    if thread_id:
        return await threads.get_thread(call.engine, call.scope, call.thread(thread_id))
    return await threads.list_threads(
        call.engine,
        call.scope,
        metadata=metadata,
        order_by=order_by,
        descending=descending,
        limit=limit,
        cursor=cursor,
    )


@tool(
    "Update thread",
    "threads",
    "write",
    answers=UpdatedThread,
    idempotent=True,
    reduced="no title, metadata or window",
)
async def update_thread(
    call: Call,
    thread_id: ThreadId = "",
    title: Annotated[str, Field(description='"" removes it.'), EMPTY_SAYS] = "",
    metadata: Annotated[FreeObject, Field(description="Merged in; null removes a key.")] = {},  # noqa: B006
    window: RawWindow = None,
) -> Json:
    """Set a conversation's title, metadata or window; it is made if absent. What is left out stays."""
    if not call.given & {"title", "metadata", "window"}:
        raise InvalidInput("nothing to update: give a title, metadata or a window")
    return await threads.update_thread(
        call.engine,
        call.scope,
        call.thread(thread_id),
        title=title if "title" in call.given else None,
        metadata=metadata if "metadata" in call.given else None,
        window=window if "window" in call.given else None,
        sent=call.sent(thread_id),
    )


@tool("Delete thread", "threads", "forget", answers=DeletedThread)
async def delete_thread(
    call: Call,
    thread_id: Annotated[str, Field(min_length=1)],
) -> Json:
    """Delete a conversation with all kept about it; delete_messages(which=undo) restores it."""
    return await deletion.delete_thread(call.engine, call.scope, call.thread(thread_id), sent=call.sent(thread_id))
