"""What the tools about steps and events do."""

from collections.abc import Sequence
from typing import Any, Literal

from memstrata.memory import events
from memstrata.memory import steps as recorded
from memstrata.server.actions.call import Call
from memstrata.storage.errors import InvalidInput
from memstrata.storage.records import Json


async def record_steps(call: Call, steps: Any, thread_id: str) -> Json:
    thread = call.thread(thread_id)
    return await recorded.record_steps(call.engine, call.scope, thread, steps, sent=call.sent(thread_id))


async def list_steps(call: Call, operation_id: str, limit: int, cursor: str, thread_id: str) -> Json:
    thread = call.thread(thread_id)
    return await recorded.list_steps(
        call.engine, call.scope, thread, operation_id=operation_id, limit=limit, cursor=cursor
    )


async def list_events(
    call: Call, after: int, types: Sequence[str], limit: int, scope: Literal["thread", "resource"], thread_id: str
) -> Json:
    if scope == "resource" and thread_id:
        raise InvalidInput("thread_id: belongs to scope='thread'; the resource's events are of no one conversation")
    thread = call.thread(thread_id) if scope == "thread" else None
    return await events.list_events(call.engine, call.scope, thread, after=after, types=types, limit=limit)
