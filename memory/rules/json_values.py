"""JSON values compared and merged."""

import json
from typing import Any


def make_equality_key(value: Any) -> str:
    """A text that equal JSON values share and no others: 1 equals 1.0, true is not 1, the order of keys is ignored."""
    return json.dumps(_without_forms(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _without_forms(value: Any) -> Any:
    """The value with each number in one form."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _without_forms(entry) for key, entry in value.items()}
    return [_without_forms(entry) for entry in value] if isinstance(value, list) else value


def merge_json(target: Any, more: Any) -> Any:
    """Merge a JSON value into another, as an append to a JSON document does. Changes neither argument.

    Objects merge key by key, a list gets the entries that it lacks, each once, and everything else is overwritten, also
    by null. Merging the same value again changes nothing.
    """
    if isinstance(target, dict) and isinstance(more, dict):
        added = {key: merge_json(target[key], value) if key in target else value for key, value in more.items()}
        return {**target, **added}
    if isinstance(target, list) and isinstance(more, list):
        there = {make_equality_key(entry) for entry in target}
        new: dict[str, Any] = {}
        for entry in more:
            key = make_equality_key(entry)
            if key not in there:
                new.setdefault(key, entry)
        return [*target, *new.values()]
    return more
