"""The tool that gives what the next model call should see."""

from typing import Annotated, Literal

from pydantic import Field

from layerlore.server.tools.declaring import Declaration, ThreadId, annotations


def get_context(
    query: Annotated[str, Field(description="Default: the newest user message.")] = "",
    max_tokens: Annotated[int, Field(ge=500, le=200_000)] = 8000,
    thread_id: ThreadId = "",
    format: Literal["text", "openai", "anthropic", "json"] = "text",
) -> str:
    """All that the next model call should see, within max_tokens: user profile, observations, newest messages, session
    memory, plan, attempts, memories. format=openai or anthropic gives messages to send."""


TOOLS = (
    Declaration(
        get_context,
        "Get context",
        "core",
        "read",
        annotations(read_only=True, idempotent=True),
        text=True,
        largest_answer=500_000,
    ),
)
