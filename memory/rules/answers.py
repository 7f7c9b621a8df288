"""The form of answers: pages of lists that fit into an answer, and keys in the order of their type."""

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast

from typing_extensions import TypedDict

from layerlore.memory.rules.validation import load_json
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.json_text import to_json

Row = TypeVar("Row", bound=Mapping[str, Any])

FRAME_BYTES = 8 * 1024
"""The bytes set aside for the rest of an answer beside the entries of its list: ids, cursors, notes."""


class PageEntry(dict[str, Any]):
    """An entry of a list with its JSON text, which is written once, for its size and for the answer."""

    __slots__ = ("text",)

    def __init__(self, entry: Mapping[str, Any]) -> None:
        super().__init__(entry)
        self.text = to_json(entry)

    @property
    def bytes(self) -> int:
        return count_sent_bytes(self.text)


def count_sent_bytes(text: str) -> int:
    """How many bytes a structure of this JSON text takes in an answer: as it is, and once more as a string of JSON."""
    return 2 * len(text.encode()) + text.count('"') + text.count("\\")


def count_entry_bytes(answer_bytes: int) -> int:
    """How many of an answer's bytes are left for the entries of its list."""
    return answer_bytes - FRAME_BYTES


def fit_entries(entries: Sequence[Row], most: int) -> list[Row]:
    """As many of the first entries as an answer of ``most`` bytes holds, at least one."""
    left, found = count_entry_bytes(most), list[PageEntry]()
    for each in entries:
        entry = PageEntry(each)
        left -= entry.bytes
        if left < 0 and found:
            break
        found.append(entry)
    return cast("list[Row]", found)


def write_answer(answer: Mapping[str, Any]) -> str:
    """Write the answer as compact JSON, with the texts that its entries have already."""
    return "{" + ",".join(f"{to_json(key)}:{_value(value)}" for key, value in answer.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(each, PageEntry) for each in value):
        return "[" + ",".join(each.text for each in value) + "]"
    return to_json(value)


def write_cursor(values: list[Any]) -> str:
    """The opaque cursor of a page's end, which ``read_cursor`` reads. The values are JSON."""
    return base64.urlsafe_b64encode(to_json(values).encode()).decode()


def read_cursor(cursor: str, unknown: InvalidInput) -> Any:
    """The values of a cursor, which the caller has to check. Raises ``unknown`` for a text that is not a cursor."""
    try:
        return load_json(base64.urlsafe_b64decode(cursor).decode(), "cursor")
    except ValueError:
        raise unknown from None


Answer = TypeVar("Answer", bound=Mapping[str, Any])


class MaskedCount(TypedDict, total=False):
    """The number of secrets that were masked; left out at 0."""

    masked: int


def show_masked(count: int) -> MaskedCount:
    """The count as a part of an answer."""
    if count:
        return {"masked": count}
    return {}


def order_keys(form: type[Answer], answer: Answer) -> Answer:
    """The answer with its keys in the order in which its type names them."""
    ordered = {name: answer[name] for name in form.__annotations__ if name in answer}
    return cast("Answer", ordered)


T = TypeVar("T")

STORED = "holds what is stored"
Stored = Annotated[T, STORED]
"""Marks a key of an answer whose value may hold text or data that was stored: more than ids, numbers, states and times."""
