"""The settings of the models that do the background work: none is asked, and nothing leaves this machine, unless one is
named here."""

from typing import Annotated

from pydantic import Field, SecretStr, model_validator

from layerlore.memory.settings.section import Name, Seconds, Section, Tokens, Unit

_AUTO = "auto"


class LlmModels(Section):
    """Other models for single kinds of background work. Empty: the model for all. none: no model for this kind."""

    observe: Name = Field(default="", description="Observations of a conversation.")
    reflect: Name = Field(default="", description="Fewer observations from many.")
    entries: Name = Field(default="", description="Entries with their evidence.")
    profile: Name = Field(default="", description="The user profile.")
    session_memory: Name = Field(default="", description="The session memory.")
    title: Name = Field(default="", description="Titles of conversations. none: no titles, also not without a model.")
    summary: Name = Field(default="", description="Summaries of trimmed messages.")


class LlmSettings(Section):
    """Background work: observations, entries, the user profile, titles and summaries."""

    model: Name = Field(
        default="",
        description="Whose model does the background work. Empty or none: no model, and nothing is sent anywhere; the "
        "host's own model may do it, and observations and titles are cut from what was said. auto: a small model of the "
        "first provider whose key is in the environment (Gemini, OpenAI, Anthropic, Mistral, Groq, OpenRouter); "
        "`layerlore doctor` says which one. Anything else is a chat model by its litellm name, as "
        "`gemini/gemini-2.5-flash` or `ollama_chat/NAME`. With a model, conversations are SENT to its provider. The "
        "variable `LAYERLORE_LLM_MODEL` is this setting, too.",
    )
    api_base: Name = Field(
        default="",
        description="URL of the model. Empty: its provider's. A server of your own: `openai/NAME` with its `api_base`.",
    )
    api_key: SecretStr = Field(
        default=SecretStr(""),
        description="Key of the model, better given as `LAYERLORE_LLM__API_KEY`. Empty: the provider's usual variable, as "
        "`GEMINI_API_KEY`.",
    )
    timeout_seconds: Seconds = Field(
        default=60.0, gt=0, le=600, description="Time for one request; an answer takes three of them at most."
    )
    concurrency: int = Field(
        default=2, ge=1, le=64, description="Jobs that a model is asked for at a time, in this process."
    )
    daily_tokens: Tokens = Field(
        default=0,
        ge=0,
        description="What one day (UTC) may take, of all servers on this database; then the work waits. 0: no bound.",
    )
    daily_usd: Annotated[float, Unit("US dollars")] = Field(
        default=0.0,
        ge=0,
        description="What one day (UTC) may cost; then the work waits. What has no known price costs nothing here. 0: no "
        "bound.",
    )
    max_answer_tokens: Tokens = Field(
        default=16_384,
        ge=256,
        le=1_000_000,
        description="Length of one answer at most, or as many as the model can, if that is fewer.",
    )
    models: LlmModels = LlmModels()

    @model_validator(mode="after")
    def _fits_together(self) -> "LlmSettings":
        if _AUTO in (self.model, *self.by_kind.values()) and (self.api_base or self.api_key.get_secret_value()):
            raise ValueError("auto chooses the provider: api_base and api_key belong to a model that is named")
        return self

    @property
    def by_kind(self) -> dict[str, str]:
        """The models of single kinds; empty where none is named."""
        return self.models.model_dump()
