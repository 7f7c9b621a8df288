"""What get_context does."""

from memstrata.memory.context import context
from memstrata.memory.context.context import Format
from memstrata.server.actions.call import Call
from memstrata.storage.records import Json


async def get_context(call: Call, query: str, max_tokens: int, thread_id: str, format: Format) -> str | Json:
    return await context.get_context(
        call.engine,
        call.scope,
        call.thread(thread_id),
        query=query,
        max_tokens=max_tokens,
        format=format,
        may_be_new=not thread_id,
    )
