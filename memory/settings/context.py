"""The settings of contexts."""

from pydantic import Field

from layerlore.memory.settings.section import Section


class ContextRules(Section):
    """What a context tells of other conversations, and of its own beyond the window: the block `<memory>`."""

    memory: bool = Field(
        default=True,
        description="Whether a context has the entries, and the lines of earlier messages, that fit the query or the newest "
        "user message.",
    )
    memory_share: float = Field(
        default=0.25,
        ge=0,
        le=0.5,
        description="Share of max_tokens that is left to memories where a window would take all. They always have what the "
        "window leaves.",
    )
