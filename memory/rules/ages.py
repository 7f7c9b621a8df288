"""Times as people and models read them, and when something that is remembered expires. Days are those of the call's time
zone (``time_zones``)."""

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from functools import lru_cache
from typing import Any

from layerlore.memory.rules.time_zones import current_zone
from layerlore.memory.rules.validation import parse_time
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import DAY_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
MINUTE_MS = 60_000
AHEAD = "dated in the future"
"""The age of a time ahead of the clock, which a wrong clock or a caller gave."""


def age(then: int, now: int) -> str:
    """How long ago a time in milliseconds was: today, 1 day ago, N days (below 14), weeks (below 60 days), months, years."""
    if then - now > DAY_MS:
        return AHEAD
    days = (find_date(now) - find_date(min(then, now))).days
    if days == 0:
        return "today"
    if days < 14:
        return _ago(days, "day")
    if days < 60:
        return _ago(days // 7, "week")
    if days < 730:
        return _ago(days // 30, "month")
    return _ago(days // 365, "year")


def _ago(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'} ago"


def minutes_ago(then: int, now: int) -> str:
    """How many minutes ago a time was, at least 1."""
    return _ago(max(1, (now - then) // MINUTE_MS), "minute")


def iso(time: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC. A time outside the years 1 to 9999 becomes the nearest in them."""
    return _moment(time).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local_time(time: str) -> str:
    """An ISO time as a clock on the wall shows it, with its date: ``2024-03-15 09:30:05``."""
    moment = datetime.fromisoformat(time)
    # The first and the last day of the calendar have no neighbour in another zone.
    with suppress(OverflowError):
        moment = moment.astimezone(current_zone())
    return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")


def day(time: int) -> str:
    """The date, as ``2024-03-15``."""
    return find_date(time).isoformat()


def find_date(time: int) -> date:
    """The date of a time in milliseconds since 1970."""
    zone = current_zone()
    if zone is UTC:
        return _find_utc_date(time // DAY_MS)
    moment = _moment(time)
    try:
        return moment.astimezone(zone).date()
    except OverflowError:
        # The first and the last day of the calendar have no neighbour in another zone.
        return moment.date()


@lru_cache(maxsize=4096)
def _find_utc_date(days: int) -> date:
    return _moment(days * DAY_MS).date()


def begin_of(day: date) -> int:
    """The first millisecond of a day, since 1970."""
    midnight = datetime.combine(day, time_of_day(), current_zone())
    return (midnight.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def name_days(times: Collection[int]) -> str:
    """The first and the last day of these times (milliseconds since 1970): ``2025-03-01 to 2025-04-02``, or the one day."""
    first, last = day(min(times)), day(max(times))
    if first == last:
        return first
    return f"{first} to {last}"


def _moment(time: int) -> datetime:
    # Exact, where fromtimestamp() rounds.
    return _EPOCH + timedelta(milliseconds=min(max(time, _FIRST_MS), _LAST_MS))


def end_of_day(time: int) -> int:
    """The last millisecond of the day of a time."""
    day_of_time = find_date(time)
    if day_of_time == date.max:
        return time
    return begin_of(day_of_time + timedelta(days=1)) - 1


EXPIRY_SIGN = "(until "
"""The sign in each line that expires."""

_DATE = linear_re.compile(r"\d{4}-\d{2}-\d{2}")
_ENDING = linear_re.compile(r"\s*\(until (\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:\d{2})?)?)\)[.;,]?$")


def parse_expiry(text: str, where: str = "expires_at") -> int:
    """When something ends, in milliseconds since 1970, from ISO 8601. A date alone is valid to its last moment. Raises
    InvalidInput."""
    moment = parse_time(text, where, current_zone())
    written = text.strip()
    if _DATE.fullmatch(written) and written < "9999-12-31":
        return begin_of(date.fromisoformat(written) + timedelta(days=1))
    return moment


def read_expiry(text: str, now: int) -> int:
    """When something that a caller stores ends, in milliseconds since 1970. Raises InvalidInput for a time that has passed."""
    found = parse_expiry(text)
    if found <= now:
        raise InvalidInput(f"expires_at: {text} has passed; give a later time, or leave it out")
    return found


def name_end(expires_at: int) -> str:
    """The last day of something that ends with a day, else the time."""
    # The end of a day is stored as the first moment of the next day (see parse_expiry).
    if expires_at == begin_of(find_date(expires_at)):
        return day(expires_at - 1)
    return iso(expires_at)


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
