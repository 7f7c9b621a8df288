"""Entries: what each setting does stands with its default in ``memory/entry_rules.py``."""

from pydantic import Field

from layerlore.server.settings_section import Section


class EntrySettings(Section):
    """What is kept as an entry, and how many of them a context is given."""

    max_entry_length: int = Field(default=2000, ge=40, le=20_000, description="Characters of one entry at most.")
    max_entries_per_turn: int = Field(default=5, ge=1, le=50, description="Entries of one answer at most.")
    dedupe_similarity: float = Field(
        default=0.86, ge=0, le=1, description="Cosine from which two say the same; 0: only equal texts do."
    )
    auto_inject: bool = Field(default=True, description="Whether a context has the entries that fit its message.")
    auto_inject_top_k: int = Field(default=12, ge=1, le=50, description="How many of them at most.")
    auto_inject_floor: float = Field(default=0.05, ge=0, le=1, description="Relevance from which on they fit.")
