"""prompts/list and prompts/get."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.types import (
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

from layerlore.memory.acceptance import one_of
from layerlore.server.acting import act_beside
from layerlore.server.answering import bounded
from layerlore.server.caller import Default, default_of, principal_of
from layerlore.server.instructions import told_for
from layerlore.server.process import Process
from layerlore.server.tools.declaring import CURRENT
from layerlore.storage.errors import InvalidInput

PROMPTS: dict[str, Prompt] = {
    prompt.name: prompt
    for prompt in (
        Prompt(
            name="load_memory",
            title="Load memory",
            description="Bring a conversation and what is remembered for a question into this one.",
            arguments=[
                PromptArgument(
                    name="thread_id",
                    title="Conversation",
                    description=f"The conversation to load. Default: {CURRENT}.",
                    required=False,
                ),
                PromptArgument(
                    name="query",
                    title="Question",
                    description="What to remember. Default: what the conversation was about last.",
                    required=False,
                ),
            ],
        ),
        Prompt(
            name="resume_work",
            title="Resume work",
            description="Continue a conversation's work where it stopped: its plan, what was tried, what it noted.",
            arguments=[
                PromptArgument(
                    name="thread_id",
                    title="Conversation",
                    description=f"The conversation to continue. Default: {CURRENT}.",
                    required=False,
                )
            ],
        ),
        Prompt(
            name="review_memory",
            title="Review memory",
            description="Have the model show what is remembered about you, and how to correct or erase it.",
            arguments=[],
        ),
        Prompt(
            name="curate",
            title="Curate memory",
            description="Have the model do the work that keeps the memory in order: notes, entries, profile.",
            arguments=[],
        ),
    )
}


async def list_prompts(ctx: ServerRequestContext[Process, Any], _: PaginatedRequestParams) -> ListPromptsResult:
    """Those who may not read get none: every prompt brings what is remembered."""
    on = ctx.lifespan_context.settings.memory == "on" and "read" in principal_of(ctx).rights
    default = default_of(ctx)
    return ListPromptsResult(prompts=[_told_for(prompt, default) for prompt in PROMPTS.values()] if on else [])


def _told_for(prompt: Prompt, default: Default) -> Prompt:
    arguments = [
        each.model_copy(update={"description": told_for(each.description or "", default)})
        for each in prompt.arguments or ()
    ]
    return prompt.model_copy(update={"arguments": arguments})


async def get_prompt(ctx: ServerRequestContext[Process, Any], params: GetPromptRequestParams) -> GetPromptResult:
    """The prompt as messages of the user. Raises LayerloreError."""
    if ctx.lifespan_context.settings.memory == "off":
        raise InvalidInput("memory is switched off (memory = off): there are no prompts")
    prompt = PROMPTS.get(params.name)
    if prompt is None:
        raise InvalidInput(f"there is no prompt {params.name[:64]!r}; {one_of(params.name, list(PROMPTS))}")
    given, known = params.arguments or {}, [argument.name for argument in prompt.arguments or ()]
    for name in given:
        if name not in known:
            takes = one_of(name, known) if known else "it takes no arguments"
            raise InvalidInput(f"{prompt.name} has no argument {name[:64]!r}; {takes}")
    texts = await act_beside(ctx, prompt.name, {name: given.get(name, "") for name in known})
    most = ctx.lifespan_context.settings.limits.answer_bytes // len(texts)
    told = [TextContent(type="text", text=bounded(text, most)) for text in texts]
    return GetPromptResult(
        description=prompt.description,
        messages=[PromptMessage(role="user", content=content) for content in told],
    )
