"""What remember and forget do."""

from collections.abc import Sequence

from layerlore.memory import forgetting, remembering
from layerlore.memory.remembering import Told
from layerlore.server.actions.call import Call
from layerlore.storage.records import Json


async def remember(call: Call, content: str, evidence: str, source: str, kind: str | None, thread_id: str) -> Json:
    # Without evidence an entry belongs to no conversation.
    thread = call.thread(thread_id) if evidence.strip() or thread_id else ""
    told = Told(content, evidence, source, kind or "")
    return await remembering.remember(call.engine, call.scope, thread, told, sent=call.sent(thread_id))


async def forget(call: Call, ids: Sequence[str], query: str, confirm: str) -> str:
    return await forgetting.forget(call.engine, call.scope, ids=ids, query=query, confirm=confirm, sent=call.sent())
