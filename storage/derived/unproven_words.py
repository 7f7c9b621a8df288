"""The words of an entry that no quotation of it contains, as they are stored: a JSON list, or null without any."""

from collections.abc import Sequence

from layerlore.storage.core.damaged_values import list_of
from layerlore.storage.core.json_text import to_json


def store_words(words: Sequence[str]) -> str | None:
    """The words as they are stored."""
    return to_json(list(words)) if words else None


def read_words(stored: str | None) -> list[str]:
    """The words that are stored; none if the list is damaged."""
    return [str(word) for word in list_of(stored)] if stored else []
