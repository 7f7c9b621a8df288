"""What get_context does."""

from layerlore.memory.context import context
from layerlore.memory.context.context import Format
from layerlore.server.actions.call import Call
from layerlore.storage.records import Json


async def get_context(call: Call, query: str, max_tokens: int, thread_id: str, format: Format) -> str | Json:
    return await context.get_context(
        call.engine,
        call.scope,
        call.thread(thread_id, reads=True),
        query=query,
        max_tokens=max_tokens,
        format=format,
    )
