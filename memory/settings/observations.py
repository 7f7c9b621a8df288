"""The settings of observations: the numbers are Mastra's and n8n's.

Messages are noted ahead each time that a fifth of the threshold has come together; at the threshold the notes are shown
in their place, but for the newest fifth.
"""

from pydantic import Field, model_validator

from layerlore.memory.settings.section import Section, Tokens

# As much as an observer is given at once when more than a step has come together (Mastra's maxTokensPerBatch).
_BATCH = 10_000


class ObservationRules(Section):
    """When a conversation is noted in the background, by a model or in extracts."""

    message_tokens: Tokens = Field(
        default=30_000,
        ge=200,
        le=2_000_000,
        description="When so much is not yet covered by notes, notes take the place of all but the newest messages.",
    )
    buffer_share: float = Field(
        default=0.2, ge=0.01, le=1, description="Share of message_tokens that is noted ahead at a time."
    )
    keep_share: float = Field(
        default=0.2, ge=0, lt=1, description="Share of message_tokens that stays raw: the newest messages."
    )
    stand_in: float = Field(
        default=1.2,
        ge=1,
        le=10,
        description="At so many times message_tokens, extracts stand in for notes that no model has made. At so many "
        "times reflect_tokens, the least important notes are dropped, and never critical ones.",
    )
    reflect_tokens: Tokens = Field(
        default=40_000, ge=200, le=2_000_000, description="When the notes are so long, they are made fewer."
    )

    @model_validator(mode="after")
    def _leaves_something(self) -> "ObservationRules":
        if self.buffer_share + self.keep_share > 1:
            raise ValueError("buffer_share and keep_share are at most 1 together: what is kept raw is not yet replaced")
        return self

    @property
    def step(self) -> int:
        """Tokens that are noted ahead at a time."""
        return max(1, int(self.message_tokens * self.buffer_share))

    @property
    def keep(self) -> int:
        """Tokens of the newest messages that stay raw."""
        return int(self.message_tokens * self.keep_share)

    @property
    def batch(self) -> int:
        """The most tokens that one call of a model is given."""
        return max(self.step, min(_BATCH, self.message_tokens))

    @property
    def stand_in_tokens(self) -> int:
        """Tokens of messages from which on extracts stand in for notes."""
        return int(self.message_tokens * self.stand_in)

    @property
    def reflect_stand_in_tokens(self) -> int:
        """Tokens of notes from which on the least important are dropped."""
        return int(self.reflect_tokens * self.stand_in)
