"""Times as people and models read them: ages such as "3 days ago", days, and ISO 8601."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
MINUTE_MS = 60_000
DAY_MS = 86_400_000
AHEAD = "dated in the future"
"""The age of a time ahead of the clock, which a wrong clock or a caller gave."""


def age(then: int, now: int) -> str:
    """How long ago a time in milliseconds was: today, 1 day ago, N days (below 14), weeks (below 60 days), months, years."""
    if then - now > DAY_MS:
        return AHEAD
    days = max(0, now - then) // DAY_MS
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


def day(time: int) -> str:
    """The date, as ``2024-03-15``, in UTC."""
    return _moment(time).date().isoformat()


def name_days(times: Collection[int]) -> str:
    """The first and the last day of these times (milliseconds since 1970): ``2025-03-01 to 2025-04-02``, or the one day."""
    first, last = day(min(times)), day(max(times))
    return first if first == last else f"{first} to {last}"


def _moment(time: int) -> datetime:
    # Exact, where fromtimestamp() rounds.
    return _EPOCH + timedelta(milliseconds=min(max(time, _FIRST_MS), _LAST_MS))
