"""When something that is remembered expires: an entry at a time, a line of a document by its ending ``(until 2026-12-01)``."""

from typing import Any

from layerlore.memory.rules.ages import DAY_MS, day, iso
from layerlore.memory.rules.validation import parse_time
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput

EXPIRY_SIGN = "(until "
"""Stands in each line that expires."""

_DATE = linear_re.compile(r"\d{4}-\d{2}-\d{2}")
_ENDING = linear_re.compile(r"\s*\(until (\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:\d{2})?)?)\)[.;,]?$")


def parse_expiry(text: str, where: str = "expires_at") -> int:
    """When something ends, in milliseconds since 1970, from ISO 8601. A date alone is valid to its last moment. Raises
    InvalidInput."""
    moment = parse_time(text, where)
    return moment + DAY_MS if _DATE.fullmatch(text.strip()) else moment


def read_expiry(text: str, now: int) -> int:
    """When something that a caller stores ends, in milliseconds since 1970. Raises InvalidInput for a time that has passed."""
    found = parse_expiry(text)
    if found <= now:
        raise InvalidInput(f"expires_at: {text} has passed; give a later time, or leave it out")
    return found


def name_end(expires_at: int) -> str:
    """The last day of something that ends with a day, else the time."""
    return day(expires_at - 1) if expires_at % DAY_MS == 0 else iso(expires_at)


def mark_line(line: str, expires_at: int) -> str:
    """A line with the ending that says how long it is valid, in place of one that it has."""
    return f"{_ENDING.sub('', line.rstrip())} (until {name_end(expires_at)})"


def mark_lines(content: Any, expires_at: str, now: int) -> Any:
    """Text with when it expires at the end of each line; without ``expires_at`` as it is. Raises InvalidInput."""
    if not expires_at:
        return content
    until = read_expiry(expires_at, now)
    if not isinstance(content, str) or not content.strip():
        raise InvalidInput("expires_at: needs a text in content, whose lines end then")
    return "\n".join(mark_line(line, until) if line.strip() else line for line in content.splitlines())


def is_line_expired(line: str, now: int) -> bool:
    """Whether the line says that it is valid no longer."""
    found = _ENDING.search(line.rstrip())
    if found is None:
        return False
    try:
        return parse_expiry(found[1]) <= now
    except InvalidInput:
        return False
