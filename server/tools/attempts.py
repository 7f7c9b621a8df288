"""Tools for trying again: the log of attempts, and what a sub-agent is told."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from layerlore.server.tools.declaring import Declaration, ThreadId, annotations


class LoggedAttempt(TypedDict):
    thread_id: str
    task_key: str
    attempt: int
    masked: NotRequired[int]


def log_attempt(
    task_key: Annotated[str, Field(description="The task's name, the same each time: build:report.")],
    action: Annotated[str, Field(description="What was tried.")],
    result: Annotated[str, Field(description="How it ended.")],
    error: Annotated[str, Field(description="Only if it failed.")] = "",
    diagnosis: str = "",
    fix_applied: str = "",
    thread_id: ThreadId = "",
) -> LoggedAttempt:
    """Log one attempt at a task, so that whoever tries next knows. get_briefing shows them."""


def get_briefing(
    task: Annotated[str, Field(description="What the sub-agent is to do.")],
    task_key: Annotated[str, Field(description="Adds the logged attempts at it.")] = "",
    max_tokens: Annotated[int, Field(ge=300, le=20_000)] = 2000,
    thread_id: ThreadId = "",
    format: Literal["text", "json"] = "text",
) -> str:
    """All that a sub-agent without memory needs: the task, goal and current step, the user's profile, the last
    messages, and earlier attempts."""


TOOLS = (
    Declaration(log_attempt, "Log attempt", "runs", "write", annotations()),
    Declaration(get_briefing, "Get briefing", "runs", "read", annotations(read_only=True, idempotent=True), text=True),
)
