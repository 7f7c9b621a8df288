"""What the tools about threads do."""

from memstrata.memory import deleting, threads
from memstrata.memory.acceptance import check_json
from memstrata.server.actions.call import Call
from memstrata.storage.errors import InvalidInput
from memstrata.storage.records import Json
from memstrata.storage.threads import OrderBy


async def list_threads(
    call: Call, thread_id: str, metadata: Json, order_by: OrderBy, descending: bool, limit: int, cursor: str
) -> Json:
    if thread_id:
        return await threads.get_thread(call.engine, call.scope, call.thread(thread_id))
    check_json(metadata, "metadata", depth=call.engine.limits.json_depth)
    return await threads.list_threads(
        call.engine,
        call.scope,
        metadata=metadata,
        order_by=order_by,
        descending=descending,
        limit=limit,
        cursor=cursor,
    )


async def update_thread(call: Call, thread_id: str, title: str, metadata: Json) -> Json:
    if not call.given & {"title", "metadata"}:
        raise InvalidInput("nothing to update: give a title, metadata, or both")
    thread = call.thread(thread_id)
    new_title = title if "title" in call.given else None
    new_metadata = metadata if "metadata" in call.given else None
    request = call.engine.request(call.caller.idempotency_key, "update_thread", [thread, new_title, new_metadata])
    return await threads.update_thread(
        call.engine, call.scope, thread, title=new_title, metadata=new_metadata, request=request
    )


async def delete_thread(call: Call, thread_id: str) -> Json:
    thread = call.thread(thread_id)
    request = call.engine.request(call.caller.idempotency_key, "delete_thread", [thread])
    return await deleting.delete_thread(call.engine, call.scope, thread, request=request)
