"""The lines of a working memory document, so that they can be compared and removed one by one. A JSON document's lines are
its values, each with its path."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from layerlore.memory.rules.validation import load_json
from layerlore.storage.core.json_text import to_json

Gone = Callable[[str], bool]


def list_lines(content: str, *, is_json: bool) -> list[str]:
    """List the lines of a document that can be shown and removed one by one."""
    value = _parse_object(content) if is_json else None
    if value is None:
        return [line.strip() for line in content.splitlines() if line.strip()]
    return [f"{path}: {_show_leaf(leaf)}" for path, leaf in _leaves(value, "")]


def remove_lines(content: str, gone: Gone, *, is_json: bool) -> str:
    """Remove the lines for which ``gone`` is true; "" if nothing is left. The text ends as it did before."""
    value = _parse_object(content) if is_json else None
    if value is None:
        kept = [line for line in content.splitlines(keepends=True) if not line.strip() or not gone(line.strip())]
        text = "".join(kept).rstrip("\r\n")
        ending = content[len(content.rstrip("\r\n")) :]
        return text + ending if text.strip() else ""
    left = _prune(value, "", gone)
    return to_json(left) if left else ""


def _parse_object(content: str) -> Any:
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


def _prune(value: Any, path: str, gone: Gone) -> Any:
    """The value without the leaves that are gone; None where nothing is left. What was empty before stays."""
    if not isinstance(value, dict | list):
        return None if gone(f"{path}: {_show_leaf(value)}") else value
    kept = [
        (key, left)
        for key, inner_path, inner in _children(value, path)
        if (left := _prune(inner, inner_path, gone)) is not None or inner is None
    ]
    if not kept and value:
        return None
    return dict(kept) if isinstance(value, dict) else [left for _, left in kept]


def _show_leaf(leaf: Any) -> str:
    return leaf if isinstance(leaf, str) else json.dumps(leaf, ensure_ascii=False)


def list_dropped(before: str, after: str, *, is_json: bool) -> list[str]:
    """List the lines of a document that a change of it took out, in their order. A line that was moved is still there."""
    there = Counter(list_lines(after, is_json=is_json))
    dropped = []
    for line in list_lines(before, is_json=is_json):
        if there[line]:
            there[line] -= 1
        else:
            dropped.append(line)
    return dropped
