"""Equality of JSON values, as a text that equal values share."""

import json
from typing import Any


def equality_key(value: Any) -> str:
    """The same text for equal JSON values and for no others: 1 is 1.0, true is not 1, an object's order is nothing."""
    return json.dumps(_without_forms(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _without_forms(value: Any) -> Any:
    """The value with each number in one form."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _without_forms(entry) for key, entry in value.items()}
    return [_without_forms(entry) for entry in value] if isinstance(value, list) else value
