"""When conversations are noted in the background: what each does stands with its default in ``memory/observing.py``."""

from pydantic import Field, model_validator

from layerlore.server.settings_section import Section


class ObservationSettings(Section):
    """When messages are noted, when the notes take their place, and when notes are made fewer."""

    message_tokens: int = Field(
        default=30_000, ge=200, le=2_000_000, description="Tokens of messages that notes then take the place of."
    )
    buffer_share: float = Field(default=0.2, ge=0.01, le=1, description="Share of them that is noted ahead at a time.")
    keep_share: float = Field(default=0.2, ge=0, lt=1, description="Share of them that stays raw: the newest.")
    stand_in: float = Field(
        default=1.2, ge=1, le=10, description="Times the threshold; then extracts stand in for notes."
    )
    reflect_tokens: int = Field(
        default=40_000, ge=200, le=2_000_000, description="Tokens of notes that are then made fewer."
    )

    @model_validator(mode="after")
    def _leaves_something(self) -> "ObservationSettings":
        if self.buffer_share + self.keep_share > 1:
            raise ValueError("buffer_share and keep_share are at most 1 together: what is kept raw is not yet replaced")
        return self
