"""Merging one JSON value into another, as an append to a JSON document means it."""

from typing import Any

from layerlore.memory.json_equality import equality_key


def deeply_merged(target: Any, more: Any) -> Any:
    """Objects merge key by key, a list gets those entries that it has not yet, each once, and everything else is
    overwritten, null included. The arguments stay as they are; merging the same again changes nothing."""
    if isinstance(target, dict) and isinstance(more, dict):
        added = {key: deeply_merged(target[key], value) if key in target else value for key, value in more.items()}
        return {**target, **added}
    if isinstance(target, list) and isinstance(more, list):
        there = {equality_key(entry) for entry in target}
        new: dict[str, Any] = {}
        for entry in more:
            key = equality_key(entry)
            if key not in there:
                new.setdefault(key, entry)
        return [*target, *new.values()]
    return more
