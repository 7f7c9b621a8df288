"""When something that is remembered expires: an entry at a time, a line of a document by its ending ``(until 2026-12-01)``."""

import re

from layerlore.memory.rules.ages import DAY_MS, day, iso
from layerlore.memory.rules.validation import parse_time
from layerlore.storage.core.errors import InvalidInput

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_ENDING = re.compile(r"\s*\(until (\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:\d{2})?)?)\)[.;,]?$")


def parse_expiry(text: str, where: str = "expires_at") -> int:
    """When something ends, in milliseconds since 1970, from ISO 8601. A date alone is valid to its last moment. Raises
    InvalidInput."""
    moment = parse_time(text, where)
    return moment + DAY_MS if _DATE.fullmatch(text.strip()) else moment


def mark_line(line: str, expires_at: int) -> str:
    """A line with the ending that says how long it is valid, in place of one that it has."""
    whole_day = expires_at % DAY_MS == 0
    return f"{_ENDING.sub('', line.rstrip())} (until {day(expires_at - 1) if whole_day else iso(expires_at)})"


def is_line_expired(line: str, now: int) -> bool:
    """Whether the line says that it is valid no longer."""
    found = _ENDING.search(line.rstrip())
    if found is None:
        return False
    try:
        return parse_expiry(found[1]) <= now
    except InvalidInput:
        return False
