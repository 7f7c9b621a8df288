"""The lines of a working memory document as single notes, each with the heading that it stands under."""

import json
from collections.abc import Iterator
from typing import Any

from layerlore.storage.core.damaged_values import value_of

_BULLETS = "-*+• \t"


def split_notes(content: str) -> list[str]:
    """The notes of a document: of text its lines, of a JSON object its values, each with its path. A heading stands
    before the lines under it, and is no note of its own."""
    value = value_of(content) if content.lstrip().startswith("{") else None
    if isinstance(value, dict):
        return [f"{path}: {leaf}" for path, leaf in _leaves(value, "") if leaf.strip()]
    return list(_split_lines(content))


def _split_lines(content: str) -> Iterator[str]:
    section = label = ""
    for raw in content.splitlines():
        line = raw.strip()
        if line.startswith("#"):
            section, label = line.lstrip("#").strip(), ""
        elif not line:
            label = ""
        elif line.endswith(":"):
            # A field of a template that nobody filled in says nothing.
            label = "" if line[0] in _BULLETS else line.rstrip(":")
        elif text := line.lstrip(_BULLETS):
            heading = label or section
            yield f"{heading}: {text}" if heading else text


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    elif value is not None:
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
