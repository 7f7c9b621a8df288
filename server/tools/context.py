"""The tool that gives what the next model call should see."""

from typing import Annotated, Literal

from pydantic import Field

from layerlore.memory.context.context_answers import ContextAnswer, ProviderContext
from layerlore.server.tools.call import Call
from layerlore.server.tools.declaration import ThreadId, tool


@tool("Get context", "core", "read", largest_answer=500_000, known_by=("query",))
async def get_context(
    call: Call,
    query: Annotated[str, Field(description="Default: the newest user message.")] = "",
    max_tokens: Annotated[int, Field(ge=500, le=200_000)] = 8000,
    thread_id: ThreadId = "",
    format: Literal["text", "openai", "responses", "anthropic", "gemini", "ai-sdk", "json"] = "text",
) -> str | ContextAnswer | ProviderContext:
    """For programs that call models: all that the next call should see, within max_tokens. `format` gives messages to
    send."""
    from layerlore.memory.context import context

    thread = call.thread(thread_id, reads=True)
    answer = await context.get_context(
        call.engine,
        call.scope,
        thread,
        query=query,
        max_tokens=max_tokens,
        format=format,
        reserved=call.reserved_tokens,
    )
    # It has the same blocks: a recall after it does not repeat them.
    call.claim_opening()
    return answer
