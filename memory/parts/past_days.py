"""Days of the past that a question names: yesterday, two days ago, last Tuesday, last week, 2 September. The words of the
languages are in ``past_day_words``; a bare *on Tuesday*, *today* and *this week* are known in English."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache

from layerlore.memory.language.speech_acts import measure_speech_acts
from layerlore.memory.parts import past_day_words as words_of
from layerlore.memory.parts.search_words import WEEKDAYS, split_words
from layerlore.memory.rules.ages import DAY_MS
from layerlore.storage.core import linear_re

_EPOCH = date(1970, 1, 1)
# How far a text must ask to mean the days and not to report them, and how many words need no question around them.
_ASKING = 0.5
_FEW_WORDS = 4
_FARTHEST_DAYS = 400

_WEEKDAY = rf"(?P<last>last|this past)? ?(?:on )?(?P<weekday>{'|'.join(WEEKDAYS)})"
_PAST = linear_re.compile(r"\b(?:did|was|were|had|said|told|talked|discussed|happened|went)\b")
_PAIRED = linear_re.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]$")
_REST = linear_re.compile(r"\p{Hangul}+|[\p{Han}\p{Hiragana}\p{Katakana}]?")
_UNITS = ("days", "weeks", "months")

_Days = tuple[date, date] | None
_Place = Callable[["linear_re.Match", str, date], _Days]


@dataclass(frozen=True, slots=True)
class PastDays:
    """The search words that name the days, and their first and last millisecond since 1970, by UTC."""

    words: tuple[str, ...]
    since: int
    until: int


def find_past_days(text: str, now: int) -> list[PastDays]:
    """The days that a question, or a few words, name from ``now`` (milliseconds since 1970); none for a text that is a
    statement."""
    low = text.casefold().replace("’", "'").replace("i\u0307", "i")
    named = list(_find_named(low, datetime.fromtimestamp(now / 1000, UTC).date()))
    if not named or (len(split_words(text)) > _FEW_WORDS and measure_speech_acts(text).asks < _ASKING):
        return []
    return [
        PastDays(tuple(split_words(words)), _to_ms(first), _to_ms(last + timedelta(days=1)) - 1)
        for words, first, last in named
    ]


def _find_named(low: str, today: date) -> Iterator[tuple[str, date, date]]:
    for found in _compile().finditer(low):
        place = next(place for name, place in _PLACES.items() if found[name])
        days = place(found, low, today)
        if days is not None:
            yield _take_words(found, low), *days


def _take_words(found: "linear_re.Match", low: str) -> str:
    """The found phrase, with the rest of its last word, and where nothing parts words with the letters beside it, as
    search words are pairs of letters there."""
    begin, end = found.span()
    before, rest = _PAIRED.search(low[:begin]), _REST.match(low, end)
    return low[before.start() if before else begin : rest.end() if rest else end]


def _place_ago(found: "linear_re.Match", low: str, today: date) -> _Days:
    count = _find_number(found["count"], (each.numbers for each in words_of.AGO))
    if found["months"]:
        months = today.year * 12 + today.month - 1 - count
        if count * 30 <= _FARTHEST_DAYS:
            return _month(months)
        return None
    return _one(today, count * (7 if found["weeks"] else 1))


def _place_weekday(found: "linear_re.Match", low: str, today: date) -> _Days:
    if not found["last"] and not _PAST.search(low):
        return None
    return _one(today, (today.weekday() - WEEKDAYS.index(found["weekday"])) % 7 or 7)


def _place_last_weekday(found: "linear_re.Match", low: str, today: date) -> _Days:
    written = found["of_last_week"] or found["before_today"]
    listed = (each.days for each in words_of.LAST_WEEKDAYS if each.of_last_week == bool(found["of_last_week"]))
    back = today.weekday() - (_find_number(written, listed) - 1)
    return _one(today, back + 7 if found["of_last_week"] else back % 7 or 7)


def _place_this(found: "linear_re.Match", low: str, today: date) -> _Days:
    if not _PAST.search(low):
        return None
    back = today.weekday() if found["this_week"] else today.day - 1 if found["this_month"] else 0
    return today - timedelta(days=back), today


def _place_week(found: "linear_re.Match", low: str, today: date) -> _Days:
    return today - timedelta(days=7 + today.weekday()), today - timedelta(days=1)


def _place_month(found: "linear_re.Match", low: str, today: date) -> _Days:
    return _month(today.year * 12 + today.month - 2)


def _place_calendar_day(found: "linear_re.Match", low: str, today: date) -> _Days:
    """Without a year the last such day."""
    month, day = _find_number(found["month"], words_of.MONTHS), int(found["day"])
    for year in [int(found["year"])] if found["year"] else [today.year, today.year - 1]:
        try:
            named = date(year, month, day)
        except ValueError:
            continue
        if named <= today:
            return named, named
    return None


_PLACES: dict[str, _Place] = {
    "before": lambda found, low, today: _one(today, 2),
    "yesterday": lambda found, low, today: _one(today, 1),
    "ago": _place_ago,
    "last_weekday": _place_last_weekday,
    "today": _place_this,
    "this_week": _place_this,
    "this_month": _place_this,
    "week": _place_week,
    "last_month": _place_month,
    "calendar": _place_calendar_day,
    "weekday": _place_weekday,
}


def _one(today: date, back: int) -> _Days:
    if back <= _FARTHEST_DAYS:
        return (today - timedelta(days=back),) * 2
    return None


def _month(number: int) -> tuple[date, date]:
    """The first and the last day of a month, which is counted from the year 0."""
    first, after = (date(each // 12, each % 12 + 1, 1) for each in (number, number + 1))
    return first, after - timedelta(days=1)


def _to_ms(day: date) -> int:
    return (day - _EPOCH).days * DAY_MS


def _find_number(written: str, listed: Iterable[str]) -> int:
    """The number that is written in digits, or as a word of one of the lists, which begin with one."""
    if written.isdigit():
        return int(written)
    return next(
        number for words in listed for number, each in enumerate(words.split(), 1) if written in each.split("|")
    )


@cache
def _compile() -> linear_re.Pattern:
    """At its first use."""
    named = {
        "before": words_of.YESTERDAY[1],
        "yesterday": words_of.YESTERDAY[0],
        "ago": "|".join(map(_write_ago, words_of.AGO)),
        "last_weekday": "|".join(map(_write_weekday, words_of.LAST_WEEKDAYS)),
        "today": words_of.TODAY,
        "this_week": words_of.THIS_WEEK,
        "this_month": words_of.THIS_MONTH,
        "week": words_of.LAST_WEEK,
        "last_month": words_of.LAST_MONTH,
        "calendar": "|".join(words_of.CALENDAR_DAY).replace("M", "|".join(map(_either, words_of.MONTHS))),
    }
    each = "|".join(f"(?P<{name}>{words})" for name, words in named.items())
    return linear_re.compile(
        rf"(?V1)(?<![[\p{{L}}\d]--[\p{{Han}}\p{{Hiragana}}\p{{Katakana}}]])(?:{each}|{_WEEKDAY})(?![\p{{L}}--[\p{{Han}}\p{{Hiragana}}\p{{Katakana}}\p{{Hangul}}]])",
        engine="regex",
    )


def _write_ago(ago: words_of.Ago) -> str:
    units = "|".join(f"(?P<{name}>{words})" for name, words in zip(_UNITS, ago.units, strict=True))
    number = rf"(?P<count>\d{{1,3}}|{_either(ago.numbers)})"
    return ago.said.replace("N", number).replace("U", f"(?:{units})")


def _write_weekday(weekday: words_of.LastWeekday) -> str:
    if weekday.of_last_week:
        name = "of_last_week"
    else:
        name = "before_today"
    return weekday.said.replace("W", f"(?P<{name}>{_either(weekday.days)})")


def _either(words: str) -> str:
    return words.replace(" ", "|")
