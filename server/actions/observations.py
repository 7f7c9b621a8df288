"""What the resource of a thread's observations gives."""

from layerlore.memory.acceptance import check_id
from layerlore.memory.observed import observed
from layerlore.server.actions.call import Call
from layerlore.storage.records import Json


async def observations_of(call: Call, thread_id: str, before: str = "") -> Json:
    check_id(thread_id, "thread_id", call.engine.limits.thread_id_chars)
    return await observed(call.engine, call.scope, thread_id, int(before) if before else None)
