"""A working memory document line by line, so that some of them can be taken out. A JSON document's lines are its values,
each with its path."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from layerlore.memory.acceptance import load_json
from layerlore.storage.json_text import to_json

Gone = Callable[[str], bool]


def lines(content: str, *, is_json: bool) -> list[str]:
    """What can be told and taken out one by one, as a reader sees it."""
    value = _json(content) if is_json else None
    if value is None:
        return [line.strip() for line in content.splitlines() if line.strip()]
    return [f"{path}: {_shown(leaf)}" for path, leaf in _leaves(value, "")]


def without(content: str, gone: Gone, *, is_json: bool) -> str:
    """The document without the lines that ``gone`` names; "" if nothing is left."""
    value = _json(content) if is_json else None
    if value is None:
        kept = [line for line in content.splitlines(keepends=True) if not line.strip() or not gone(line.strip())]
        text = "".join(kept)
        return text if text.strip() else ""
    left = _pruned(value, "", gone)
    return to_json(left) if left else ""


def _json(content: str) -> Any:
    try:
        found = load_json(content, "content")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _children(value: dict[str, Any] | list[Any], path: str) -> Iterator[tuple[Any, str, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield key, f"{path}.{key}" if path else str(key), inner


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for _, inner_path, inner in _children(value, path):
            yield from _leaves(inner, inner_path)
    else:
        yield path, value


def _pruned(value: Any, path: str, gone: Gone) -> Any:
    """None where nothing is left; what was empty before stays."""
    if not isinstance(value, dict | list):
        return None if gone(f"{path}: {_shown(value)}") else value
    kept = [
        (key, left)
        for key, inner_path, inner in _children(value, path)
        if (left := _pruned(inner, inner_path, gone)) is not None or inner is None
    ]
    if not kept and value:
        return None
    return dict(kept) if isinstance(value, dict) else [left for _, left in kept]


def _shown(leaf: Any) -> str:
    return leaf if isinstance(leaf, str) else json.dumps(leaf, ensure_ascii=False)
