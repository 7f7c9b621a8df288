"""Answers that are more than a structure or a text."""

from dataclasses import dataclass

from layerlore.memory.media import Media
from layerlore.storage.records import Json


@dataclass(frozen=True, slots=True)
class Answer:
    """A structure, and beside it one image or file of a thread."""

    structure: Json
    media: Media
    thread_id: str
