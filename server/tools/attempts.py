"""Tools for trying again: the log of attempts, and the briefing for a sub-agent."""

from typing import TYPE_CHECKING, Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from layerlore.server.process.late_modules import LateModule
from layerlore.server.tools.call import Call
from layerlore.server.tools.declaration import TextOrJson, ThreadId, tool
from layerlore.storage.core.records import Json

if TYPE_CHECKING:
    from layerlore.memory.context import briefing
    from layerlore.memory.work import attempts
else:
    briefing = LateModule("layerlore.memory.context.briefing")
    attempts = LateModule("layerlore.memory.work.attempts")


class LoggedAttempt(TypedDict):
    thread_id: str
    task_key: str
    attempt: int
    masked: NotRequired[int]


@tool("Log attempt", "runs", "write", answers=LoggedAttempt)
async def log_attempt(
    call: Call,
    task_key: Annotated[str, Field(description="The task's name, the same each time: build:report.")],
    action: Annotated[str, Field(description="What was tried.")],
    result: Annotated[str, Field(description="How it ended.")],
    error: Annotated[str, Field(description="Only if it failed.")] = "",
    diagnosis: str = "",
    fix_applied: str = "",
    thread_id: ThreadId = "",
) -> Json:
    """Log one attempt at a task, so that whoever tries next knows. get_briefing shows them."""
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


@tool("Get briefing", "runs", "read")
async def get_briefing(
    call: Call,
    task: Annotated[str, Field(description="What the sub-agent is to do.")],
    task_key: Annotated[str, Field(description="Adds the logged attempts at it.")] = "",
    max_tokens: Annotated[int, Field(ge=300, le=20_000)] = 2000,
    thread_id: ThreadId = "",
    format: TextOrJson = "text",
) -> str | Json:
    """All that a sub-agent without memory needs: the task, the user's rules and corrections, goal and current step, the
    user's profile, earlier attempts, what is remembered about it, and the last messages."""
    thread = call.thread(thread_id, reads=True)
    return await briefing.get_briefing(
        call.engine, call.scope, thread, task, task_key=task_key, max_tokens=max_tokens, json=format == "json"
    )
