"""What a tool answered, as texts for a provider that takes nothing else."""

import json
from typing import Any

from layerlore.memory.context.provider_media import media_note
from layerlore.memory.parts import result_parts, says_something
from layerlore.storage.records import Json

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def answer_texts(part: Json) -> list[str]:
    """The texts of a tool result, JSON compactly and a note for each image and file.

    A failure says so itself: "Error: " stands in front, if the tool did not say it already.
    """
    result = part["result"]
    inner = result_parts(result)
    if inner:
        texts = [
            entry["text"] if entry["type"] == "text" else media_note(entry) for entry in filter(says_something, inner)
        ]
    else:
        texts = [result if isinstance(result, str) else compact(result)]
    return _as_error(texts) if part.get("is_error") else texts


def _as_error(texts: list[str]) -> list[str]:
    if not texts or not texts[0].strip():
        return ["Error", *texts[1:]]
    said_already = texts[0].lstrip()[:5].lower() == "error"
    return texts if said_already else [f"Error: {texts[0]}", *texts[1:]]


def compact(value: Any) -> str:
    """JSON text without spaces, its characters as they are."""
    return _ENCODER.encode(value)
