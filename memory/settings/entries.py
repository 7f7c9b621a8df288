"""The settings of entries. Each default is n8n's (seed 004)."""

from pydantic import Field

from layerlore.memory.settings.section import Characters, Section


class EntryRules(Section):
    """Entries: notes that are kept for later conversations, each with the words that prove it."""

    enabled: bool = Field(
        default=True,
        description="false: none are made, by remember or in the background, and those that are kept are neither recalled nor "
        "shown in a context; they stay, and `forget` ends them. Who turns it on again has them back, and what was said "
        "meanwhile is looked at, too.",
    )
    max_entry_length: Characters = Field(default=2000, ge=40, le=20_000, description="Length of one entry at most.")
    max_entries_per_turn: int = Field(default=5, ge=1, le=50, description="Entries of one turn at most.")
    dedupe_similarity: float = Field(
        default=0.86,
        ge=0,
        le=1,
        description="Cosine from which on an answer names another entry as similar. Two entries are one only if their words say "
        "the same; 0: only if their texts are equal.",
    )
    auto_inject: bool = Field(
        default=True, description="Whether a context has the entries that fit its newest message."
    )
    auto_inject_top_k: int = Field(default=12, ge=1, le=50, description="Entries in a context at most.")
    auto_inject_floor: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Relevance (0 to 1) from which on a context has entries. 0: it has the nearest ones, however near "
        "they are.",
    )

    preferences_top_k: int = Field(
        default=8,
        ge=0,
        le=50,
        description="So many of the user's own preferences (`kind` preference), the newest, are in every context, whatever it is "
        "about. 0: they are there as other entries are.",
    )

    @property
    def injected(self) -> bool:
        """Whether a context has entries."""
        return self.enabled and self.auto_inject
