"""Which models do the background work: nobody is asked, and nothing leaves this machine, unless one is named here."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, SecretStr, model_validator

from layerlore.server.settings_section import Name, Section

_AUTO = "auto"

# The usual spelling of the one variable that most people set.
_SHORT = {"LAYERLORE_LLM_MODEL": "LAYERLORE_LLM__MODEL"}


def spelled_out(environ: Mapping[str, Any]) -> dict[str, Any]:
    """Variables under their full names; where both are given, the full one counts."""
    short = {_SHORT[name.upper()]: value for name, value in environ.items() if name.upper() in _SHORT}
    return short | {name: value for name, value in environ.items() if name.upper() not in _SHORT}


class LlmModels(Section):
    """Models for single kinds of work; empty: the one for all."""

    observe: Name = Field(default="", description="Observations of a conversation.")
    reflect: Name = Field(default="", description="Fewer observations from many.")
    entries: Name = Field(default="", description="Entries with their evidence.")
    profile: Name = Field(default="", description="The user profile.")
    session_memory: Name = Field(default="", description="The session memory.")
    title: Name = Field(default="", description="Titles of conversations.")
    summary: Name = Field(default="", description="Summaries of trimmed messages.")


class LlmSettings(Section):
    """The model that observes, extracts and summarises in the background."""

    model: Name = Field(default="", description="none, auto, or a chat model by its litellm name.")
    models: LlmModels = LlmModels()
    api_base: Name = Field(default="", description="URL of the model, else its provider's.")
    api_key: SecretStr = Field(default=SecretStr(""), description="Its key, else the provider's own variable.")
    timeout_seconds: float = Field(default=60.0, gt=0, le=600, description="Seconds for one request.")
    concurrency: int = Field(default=2, ge=1, le=64, description="Jobs that a model is asked for at a time.")
    daily_tokens: int = Field(default=0, ge=0, description="Tokens a day (UTC), then the work waits; 0: no bound.")
    daily_usd: float = Field(default=0.0, ge=0, description="US dollars a day (UTC), then the work waits; 0: no bound.")
    max_answer_tokens: int = Field(default=16_384, ge=256, le=1_000_000, description="Tokens of one answer at most.")

    @model_validator(mode="after")
    def _fits_together(self) -> "LlmSettings":
        if _AUTO in (self.model, *self.by_kind.values()) and (self.api_base or self.api_key.get_secret_value()):
            raise ValueError("auto chooses the provider: api_base and api_key belong to a model that is named")
        return self

    @property
    def by_kind(self) -> dict[str, str]:
        """The models of single kinds; empty where none is named."""
        return self.models.model_dump()
