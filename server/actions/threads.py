"""What the tools about threads do."""

from typing import Any

from layerlore.memory import deleting, threads
from layerlore.server.actions.call import Call
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Json
from layerlore.storage.threads import OrderBy


async def list_threads(
    call: Call, thread_id: str, metadata: Json, order_by: OrderBy, descending: bool, limit: int, cursor: str
) -> Json:
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


async def update_thread(call: Call, thread_id: str, title: str, metadata: Json, window: Any) -> Json:
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


async def delete_thread(call: Call, thread_id: str) -> Json:
    return await deleting.delete_thread(call.engine, call.scope, call.thread(thread_id), sent=call.sent(thread_id))
