"""JSON as it is stored and sent."""

import json
from typing import Any


def to_json(value: Any) -> str:
    """The one JSON form that is stored and compared: compact, keys in the order given, no NaN."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
