"""Stored JSON: how it is written, and what readers show where the disk has damaged it."""

import json
from collections.abc import Callable
from typing import Any

from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.records import Json, StoredJson


def to_json(value: Any) -> str:
    """The one JSON form that is stored and compared: compact, keys in the order given, no NaN."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


NOTE = "[what was stored here is damaged and cannot be read; `layerlore doctor` says what else is]"
DAMAGED: Json = {"damaged": NOTE}
# A text that is nested too deep makes json raise RecursionError.
_UNREADABLE = (ValueError, TypeError, RecursionError)

# The fields that readers of a part rely on, by its type.
_PART: dict[str, tuple[tuple[str, type], ...]] = {
    "text": (("text", str),),
    "reasoning": (("text", str),),
    "image": (),
    "file": (),
    "tool_call": (("id", str), ("name", str)),
    "tool_result": (("tool_call_id", str),),
    "custom": (),
}
_BESIDE = {"tool_call": "arguments", "tool_result": "result", "custom": "data"}


def parts_of(stored: str, loads: Callable[[str], list[Json]] = json.loads) -> list[Json]:
    """A message's parts, as ``loads`` reads them; a note in their place if they are damaged."""
    # Sound JSON may still be no list of parts: then `_whole` raises or answers False.
    try:
        parts = loads(stored)
        if all(map(_whole, parts)):
            return parts
    except (*_UNREADABLE, AttributeError, LookupError):
        pass
    return [{"type": "text", "text": NOTE}]


def _whole(part: Json) -> bool:
    fields = _PART.get(part.get("type", ""))
    if fields is None:
        return False
    beside = _BESIDE.get(part["type"])
    for name, kind in fields:
        if not isinstance(part.get(name), kind):
            return False
    return beside is None or beside in part


def object_of(stored: str) -> StoredJson:
    """A JSON object; one that says so if it is damaged."""
    value = value_of(stored)
    if isinstance(value, dict):
        return value
    return dict(DAMAGED)


def list_of(stored: str) -> list[Any]:
    """A JSON list; an empty one if it is damaged."""
    value = value_of(stored)
    if isinstance(value, list):
        return value
    return []


def calls_of(stored: str) -> Any:
    """A JSON list or object of calls, as they were brought; an empty list if it is damaged."""
    try:
        value = json.loads(stored)
    except _UNREADABLE:
        return []
    if isinstance(value, list | dict):
        return value
    return []


def value_of(stored: str) -> Any:
    """Any JSON; an object that says so if it is damaged."""
    try:
        return json.loads(stored)
    except _UNREADABLE:
        return dict(DAMAGED)


def intact(stored: str, what: str) -> Any:
    """Any JSON that nothing can stand in for. Raises Conflict, which says ``what`` is damaged."""
    try:
        return json.loads(stored)
    except _UNREADABLE:
        raise Conflict(f"{what} is damaged and cannot be read; `layerlore doctor` says what else is") from None
