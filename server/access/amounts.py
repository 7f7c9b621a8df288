"""What a request counts as, before anything of it is checked."""

import json
from collections.abc import Mapping
from typing import Any

# The arguments whose elements become rows. Lists may come as text that holds JSON: every message has a role, every step
# a type.
_ELEMENTS = {"add_messages": ("messages", '"role"'), "record_steps": ("steps", '"type"')}


def rows_of(tool: str, arguments: Any) -> int:
    """The rows that a call of a tool that writes would add: its messages or steps, or the steps of its plan, and else
    1."""
    if not isinstance(arguments, Mapping):
        return 1
    if tool in _ELEMENTS:
        name, mark = _ELEMENTS[tool]
        return max(1, _elements(arguments.get(name), mark))
    given = arguments.get("plan")
    if tool == "plan" and given is not None:
        steps = given.get("steps") if isinstance(given, Mapping) else given
        return 1 + _elements(steps, '"description"')
    return 0 if tool == "plan" and arguments.get("action") == "review" else 1


def _elements(value: Any, mark: str) -> int:
    if isinstance(value, str):
        return value.count(mark)
    return len(value) if isinstance(value, list) else 0


def bytes_of(params: Mapping[str, Any] | None, request: Any) -> int:
    """The bytes of a request: as HTTP tells them, or its parameters as JSON."""
    told = request.headers.get("content-length", "") if request is not None else ""
    if told.isascii() and told.isdigit():
        return int(told)
    try:
        return len(json.dumps(params))
    except (ValueError, RecursionError):
        return 0  # too deep, or with too long a number: it is refused unread
