"""Tools about the steps of an agent, the log of changes, the attempts at a task, and the briefing for a sub-agent."""

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from layerlore.memory.context.context_answers import BriefingAnswer
from layerlore.memory.work.work_answers import ListedEvents, ListedSteps, LoggedAttempt, RecordedSteps
from layerlore.server.tools.declaration import Call, TextOrJson, ThreadId, tool
from layerlore.storage.core.errors import InvalidInput

RawSteps = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"type": "string"},
                    "operation_id": {"type": "string"},
                    # Strict mode gives these keys alone: enough for a step of the type text.
                    "content": {"type": "string"},
                },
                "required": ["type"],
            },
        }
    ),
]


@tool("Record steps", "runs", "write", answers=RecordedSteps)
async def record_steps(call: Call, steps: RawSteps, thread_id: ThreadId = "") -> RecordedSteps:
    """Record what an agent did, in order, all or none. A step has type (text, reasoning, tool_call, tool_result),
    operation_id (of a run: its run_id) and any of agent_id, agent_name, sub_agent_id, sub_agent_name, role, content, tool_name, tool_call_id, arguments,
    result, is_error, usage, model, message_id, metadata, created_at. An event has type (AgentStart, AgentEnd,
    TurnStart, TurnEnd, ToolExecutionStart, ToolExecutionEnd, Error) and payload."""
    from layerlore.memory.work import steps as recorded

    thread = call.thread(thread_id)
    return await recorded.record_steps(call.engine, call.scope, thread, steps, sent=call.sent(thread_id))


@tool("List steps", "runs", "read", answers=ListedSteps, largest_answer=300_000)
async def list_steps(
    call: Call,
    operation_id: str = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: str = "",
    thread_id: ThreadId = "",
) -> ListedSteps:
    """Read the steps of a conversation, oldest first. `next_cursor` continues."""
    from layerlore.memory.work import steps as recorded

    thread = call.thread(thread_id, reads=True)
    return await recorded.list_steps(
        call.engine, call.scope, thread, operation_id=operation_id, limit=limit, cursor=cursor
    )


@tool("List events", "runs", "read", answers=ListedEvents, largest_answer=300_000)
async def list_events(
    call: Call,
    after: Annotated[int, Field(ge=0)] = 0,
    types: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    scope: Literal["thread", "resource"] = "thread",
    thread_id: ThreadId = "",
) -> ListedEvents:
    """Read what changed, in order, from a seq on: in a conversation, or of the resource (its conversations and
    profile). `next` is the `after` for the next page or the next look."""
    from layerlore.memory.work import steps as recorded

    if scope == "resource" and thread_id:
        raise InvalidInput("thread_id: belongs to scope='thread'; the resource's events are of no one conversation")
    # The resource's log has events of all conversations, and of the profile.
    if scope == "thread":
        thread = call.thread(thread_id, reads=True)
    else:
        thread = None
    return await recorded.list_events(call.engine, call.scope, thread, after=after, types=types, limit=limit)


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
) -> LoggedAttempt:
    """Log one attempt at a task, so that the next try knows of it. get_briefing shows them."""
    from layerlore.memory.work import attempts

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
) -> str | BriefingAnswer:
    """All that a sub-agent without memory needs: the task, the user's rules and corrections, goal and current step, the
    user's profile, earlier attempts, what is remembered about it, and the last messages."""
    from layerlore.memory.context import briefing

    thread = call.thread(thread_id, reads=True)
    # The line about a default thread stands below the briefing and takes tokens, too.
    most = max_tokens - call.reserved_tokens
    return await briefing.get_briefing(
        call.engine, call.scope, thread, task, task_key=task_key, max_tokens=most, json=format == "json"
    )
