"""The settings of what hosts' hooks capture and show."""

from pydantic import Field

from layerlore.memory.settings.context_settings import Characters, Section, Tokens


class CaptureSettings(Section):
    """What `layerlore hook` keeps of a host's conversations, and what it shows to their models unasked (docs/capture.md)."""

    tokens: Tokens = Field(
        default=800,
        ge=0,
        le=20_000,
        description="What one hook may show to a model at most, at the start of a session or with a prompt. 0: nothing.",
    )
    session_tokens: Tokens = Field(
        default=8000, ge=0, description="What all hooks of one session together may show to a model."
    )
    tool_chars: Characters = Field(
        default=4000,
        ge=100,
        le=100_000,
        description="Of each text in a tool's call or result so much is kept; the middle of a longer one is left out.",
    )
    subagents: bool = Field(default=False, description="Keep what sub-agents say and do, too.")
