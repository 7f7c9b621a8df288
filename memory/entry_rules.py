"""The constants of entries: each is a setting, and its default is n8n's (seed 004)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EntryRules:
    """What is kept as an entry, and how many of them a context is given."""

    max_entry_length: int = 2000
    """In characters."""
    max_entries_per_turn: int = 5
    dedupe_similarity: float = 0.86
    """The cosine from which on two entries say the same; 0: only equal texts do."""
    auto_inject: bool = True
    """Whether a context has the entries that fit its newest message."""
    auto_inject_top_k: int = 12
    auto_inject_floor: float = 0.05
    """The relevance from which on they are given: a context is meant to say more than the answer to a question, which
    ``recall.floor`` holds back."""
