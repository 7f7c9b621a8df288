"""The shape of what a user of a run says."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phrases:
    """Templates (see ``Draw.filled``): what is planted by kind, what is asked for, and what is said besides."""

    rules: tuple[str, ...]
    corrections: tuple[str, ...]
    facts: tuple[str, ...]
    ids: tuple[str, ...]
    asks: tuple[str, ...]
    chatter: tuple[str, ...]
    small_talk: tuple[str, ...]
