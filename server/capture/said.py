"""One message or call in a transcript of any host."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from layerlore.memory.parts.parts import text_part
from layerlore.storage.core.records import Json, Role

Record = dict[str, Any]
"""A JSON object that a host wrote."""
IMAGE = "[image]"
"""Stands for an image: a transcript's are mostly screenshots."""


@dataclass(frozen=True, slots=True)
class Said:
    """``id``: unique in its conversation, "" where the host gave none; ``parts`` as ``memory.parts.parts`` has them;
    ``at``: when, as the host wrote it; ``by_subagent``: a sub-agent said or did it; ``host``: whose transcript says so, ""
    for what a user typed and no transcript has."""

    id: str
    role: Role
    parts: list[Json]
    at: Any = None
    by_subagent: bool = False
    host: str = ""


def read_texts(content: Any) -> Iterator[Json]:
    """The text parts of a content that is a text, or a list of texts and blocks."""
    if isinstance(content, str):
        yield text_part(content)
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, str):
                yield text_part(block)
            elif isinstance(block, dict) and isinstance(text := block.get("text"), str):
                yield text_part(text)
            elif isinstance(block, dict) and "image" in str(block.get("type", "")):
                yield text_part(IMAGE)


def join_texts(content: Any) -> str:
    """All texts of a content, a line each."""
    return "\n".join(str(part["text"]) for part in read_texts(content))


def as_object(value: Any) -> Record:
    """The value if it is a JSON object, else an empty one."""
    if isinstance(value, dict):
        return value
    return {}
