"""The settings of contexts."""

from pydantic import Field

from layerlore.memory.settings.recall import RecallRules
from layerlore.memory.settings.section import Section

_RECALL = RecallRules()


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
    memory_floor: float = Field(
        default=_RECALL.floor,
        ge=0,
        le=1,
        description="Relevance (0 to 1) from which on earlier messages are told. The default is that of `recall.floor`.",
    )
    memory_lexical_floor: float = Field(
        default=_RECALL.lexical_floor,
        ge=0,
        le=1,
        description="The floor where words alone decide. The default is that of `recall.lexical_floor`.",
    )
