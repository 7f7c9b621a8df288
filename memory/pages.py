"""How much of a list one answer holds, in bytes of what is sent."""

from collections.abc import Sequence
from typing import Any

from layerlore.storage.json_text import to_json
from layerlore.storage.records import Json

FRAME_BYTES = 8 * 1024
"""Set aside for what stands in an answer beside the entries of its list: ids, cursors, notes."""


class Entry(dict[str, Any]):
    """An entry of a list that knows its JSON text, so that it is written once: for its size and for the answer."""

    __slots__ = ("text",)

    def __init__(self, entry: Json) -> None:
        super().__init__(entry)
        self.text = to_json(entry)

    @property
    def bytes(self) -> int:
        return sent_bytes(self.text)


def sent_bytes(text: str) -> int:
    """How many bytes a structure of this JSON text has in an answer: as it is, and once more as a text in JSON."""
    return 2 * len(text.encode()) + text.count('"') + text.count("\\")


def room(answer_bytes: int) -> int:
    """What an answer of so many bytes has for the entries of a list."""
    return answer_bytes - FRAME_BYTES


def fitting(entries: Sequence[Json], most: int) -> list[Entry]:
    """As many of the first entries as an answer of ``most`` bytes holds, at least one."""
    left, found = room(most), list[Entry]()
    for each in entries:
        entry = Entry(each)
        left -= entry.bytes
        if left < 0 and found:
            break
        found.append(entry)
    return found


def written(answer: Json) -> str:
    """The answer as compact JSON, its entries as they were written already."""
    return "{" + ",".join(f"{to_json(key)}:{_value(value)}" for key, value in answer.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(each, Entry) for each in value):
        return "[" + ",".join(each.text for each in value) + "]"
    return to_json(value)
