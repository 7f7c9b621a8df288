"""A message's content: a text, or a list of texts and blocks of any shape we know, turned into parts."""

from typing import Any

from layerlore.memory.acceptance import check_text, one_of, shown
from layerlore.memory.anthropic_shape import ANTHROPIC_READERS, read_image_block, read_tool_result_block
from layerlore.memory.canonical_shape import CANONICAL_READERS, Reader
from layerlore.memory.limits import Limits
from layerlore.memory.openai_shape import OPENAI_READERS, read_openai_file_block
from layerlore.memory.parts import text_part
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Json

_READERS: dict[str, Reader] = {**CANONICAL_READERS, **OPENAI_READERS, **ANTHROPIC_READERS}

_MARKED_READERS: dict[str, tuple[str, Reader]] = {
    "image": ("source", read_image_block),
    "file": ("file", read_openai_file_block),
    "tool_result": ("tool_use_id", read_tool_result_block),
}
"""Types that a provider shares with us, and the key that tells its blocks from ours."""


def read_content(raw: Any, where: str, limits: Limits) -> list[Json]:
    """Raises InvalidInput, naming the place, for anything but null, a text, or a list of texts and known blocks."""
    if raw is None:
        return []
    if isinstance(raw, str):
        return [text_part(check_text(raw, where))]
    if not isinstance(raw, list):
        raise InvalidInput(f"{where}: must be a string or a list of strings and parts, not {shown(raw)}")
    parts: list[Json] = []
    for index, entry in enumerate(raw):
        place = f"{where}[{index}]"
        if isinstance(entry, str):
            parts.append(text_part(check_text(entry, place)))
        elif isinstance(entry, dict):
            parts += _reader(entry, place)(entry, place, limits)
        else:
            raise InvalidInput(
                f"{place}: must be a string or a part such as {{'type': 'text', ...}}, not {shown(entry)}"
            )
    return parts


def _reader(block: Json, where: str) -> Reader:
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in _READERS:
        what = "the part has no type" if kind is None else f"unknown part type {shown(kind)}"
        raise InvalidInput(f"{where}: {what}; {one_of(kind, tuple(_READERS))}")
    mark, marked_reader = _MARKED_READERS.get(kind, ("", None))
    return marked_reader if marked_reader and mark in block else _READERS[kind]
