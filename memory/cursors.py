"""Cursors of lists: where a page ended and what it was made for, opaque to callers."""

import base64
from typing import Any

from layerlore.memory.acceptance import load_json
from layerlore.storage.errors import InvalidInput
from layerlore.storage.json_text import to_json


def cursor_of(values: list[Any]) -> str:
    """The cursor that ``opened`` reads. The values are JSON."""
    return base64.urlsafe_b64encode(to_json(values).encode()).decode()


def opened(cursor: str, unknown: InvalidInput) -> Any:
    """What a cursor holds, whoever made it: to be checked. Raises ``unknown`` for one that nobody made."""
    try:
        return load_json(base64.urlsafe_b64decode(cursor).decode(), "cursor")
    except ValueError:
        raise unknown from None
