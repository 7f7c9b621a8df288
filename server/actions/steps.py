"""What the tools about steps and events do."""

from collections.abc import Sequence
from typing import Any, Literal

from layerlore.memory import events
from layerlore.memory import steps as recorded
from layerlore.server.actions.call import Call
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Json


async def record_steps(call: Call, steps: Any, thread_id: str) -> Json:
    thread = call.thread(thread_id)
    return await recorded.record_steps(call.engine, call.scope, thread, steps, sent=call.sent(thread_id))


async def list_steps(call: Call, operation_id: str, limit: int, cursor: str, thread_id: str) -> Json:
    thread = call.thread(thread_id, reads=True)
    return await recorded.list_steps(
        call.engine, call.scope, thread, operation_id=operation_id, limit=limit, cursor=cursor
    )


async def list_events(
    call: Call, after: int, types: Sequence[str], limit: int, scope: Literal["thread", "resource"], thread_id: str
) -> Json:
    if scope == "resource" and thread_id:
        raise InvalidInput("thread_id: belongs to scope='thread'; the resource's events are of no one conversation")
    thread = call.thread(thread_id, reads=True) if scope == "thread" else None
    return await events.list_events(call.engine, call.scope, thread, after=after, types=types, limit=limit)
