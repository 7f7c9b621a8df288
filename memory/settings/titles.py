"""The settings of titles. They are those of VoltAgent's ``generateTitle`` (seed 003)."""

from pydantic import Field

from layerlore.memory.settings.section import Characters, Section


class TitleRules(Section):
    """Titles of conversations, made once from what the user first asks. `update_thread` sets another at any time."""

    enabled: bool = Field(
        default=True,
        description="false: no title is made, by a model or without one; `llm.models.title` = none says the same.",
    )
    instructions: str = Field(
        default="",
        max_length=2000,
        description="What a title is to be like, for the model that makes it. Empty: a noun phrase of 2 to 6 words in the "
        "user's language.",
    )
    max_length: Characters = Field(default=60, ge=20, le=255, description="A longer title is cut at a word.")
