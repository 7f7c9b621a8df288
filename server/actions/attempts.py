"""What log_attempt and get_briefing do."""

from typing import Literal

from layerlore.memory import attempts, briefing
from layerlore.server.actions.call import Call
from layerlore.storage.records import Json


async def log_attempt(
    call: Call,
    task_key: str,
    action: str,
    result: str,
    error: str,
    diagnosis: str,
    fix_applied: str,
    thread_id: str,
) -> Json:
    return await attempts.log_attempt(
        call.engine,
        call.scope,
        call.thread(thread_id),
        task_key=task_key,
        action=action,
        result=result,
        error=error,
        diagnosis=diagnosis,
        fix_applied=fix_applied,
        sent=call.sent(thread_id),
    )


async def get_briefing(
    call: Call, task: str, task_key: str, max_tokens: int, thread_id: str, format: Literal["text", "json"]
) -> str | Json:
    return await briefing.get_briefing(
        call.engine,
        call.scope,
        call.thread(thread_id, reads=True),
        task,
        task_key=task_key,
        max_tokens=max_tokens,
        json=format == "json",
    )
