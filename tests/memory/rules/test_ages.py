"""Ages and times as people and models read them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.rules.ages import age, begin_of, day, end_of_day, find_date, iso
from layerlore.memory.rules.time_zones import use_zone
from layerlore.memory.rules.validation import parse_time
from layerlore.storage.core.records import DAY_MS

NOW = 1_750_000_000_000
FIRST = parse_time("0001-01-01", "first")
LAST = parse_time("9999-12-31T23:59:59.999Z", "last")
TIMES = st.integers(FIRST, LAST)


@pytest.mark.parametrize(
    ("days", "label"),
    [
        (-3000, "dated in the future"),
        (-2, "dated in the future"),
        (-1, "today"),
        (0, "today"),
        (1, "1 day ago"),
        (2, "2 days ago"),
        (13, "13 days ago"),
        (14, "2 weeks ago"),
        (59, "8 weeks ago"),
        (60, "2 months ago"),
        (729, "24 months ago"),
        (730, "2 years ago"),
        (3650, "10 years ago"),
    ],
)
def test_an_age_is_told_in_the_unit_that_fits_it(days: int, label: str) -> None:
    assert age(NOW - days * DAY_MS, NOW) == label


def test_a_day_is_over_at_midnight_of_the_users_zone() -> None:
    midnight = parse_time("2026-11-28T00:00:00Z", "midnight")
    assert age(midnight, midnight) == "today"
    assert age(midnight - 1, midnight) == "1 day ago"
    with use_zone(ZoneInfo("America/New_York")):
        assert age(midnight - 1, midnight) == "today"
        assert age(midnight - DAY_MS, midnight) == "1 day ago"


@given(TIMES, st.sampled_from(["UTC", "Asia/Kathmandu", "Pacific/Kiritimati", "America/St_Johns"]))
def test_a_time_lies_within_its_day(time: int, zone: str) -> None:
    with use_zone(ZoneInfo(zone)):
        # The first and the last day of the calendar have no neighbour.
        if FIRST + DAY_MS < time < LAST - DAY_MS:
            assert begin_of(find_date(time)) <= time <= end_of_day(time)
        assert day(time) == find_date(time).isoformat()


@given(TIMES)
def test_a_time_is_written_to_the_millisecond_and_read_back(time: int) -> None:
    assert parse_time(iso(time), "time") == time
    assert iso(time).endswith("Z")
    assert len(iso(time)) == len("2025-03-01T14:30:00.000Z")


@given(TIMES)
def test_the_day_is_the_one_in_utc(time: int) -> None:
    assert iso(time).startswith(day(time))
    assert datetime.fromisoformat(day(time)).replace(tzinfo=UTC).date().isoformat() == day(time)
