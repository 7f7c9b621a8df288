"""Days of the past that a question names: yesterday, two days ago, last Tuesday, last week, 2 September. A bare
*on Tuesday*, *today* and *this week* are known in English.

The languages' words are for text in small letters with straight apostrophes. In their lists of numbers, days and months
the forms of one number are parted by ``|``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

from layerlore.memory.language.search_words import split_words
from layerlore.memory.language.speech_acts import measure_speech_acts
from layerlore.memory.language.word_lists import ordered_words, tables, texts, word_set
from layerlore.memory.rules.ages import begin_of, find_date
from layerlore.storage.core import linear_re

_CALENDAR_DAY = (
    r"(?P<day>\d{1,2})(?:\.|er)? ?(?:de )?(?P<month>M)(?:,? (?:de )?(?P<year>\d{4}))?",
    r"(?:(?P<year>\d{4}) ?[年년] ?)?(?P<month>\d{1,2}) ?[月월] ?(?P<day>\d{1,2}) ?[日号號일]",
)
"""M stands for a month's name in the first one."""
_ENGLISH_DAY = (
    r"(?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)? (?:of )?(?P<month>M)(?:,? (?P<year>\d{4}))?",
    r"(?P<month>M)\.? (?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,? (?P<year>\d{4}))?",
)
# *May* is mostly a verb, so something beside it must say that it is the month.
_DAY_OF_MAY = (
    r"on (?:(?P<day>\d{1,2}) (?P<month>may)|(?P<month>may) (?P<day>\d{1,2}))(?:,? (?P<year>\d{4}))?",
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)? of (?P<month>may)(?:,? (?P<year>\d{4}))?",
    r"(?P<day>\d{1,2}) (?P<month>may),? (?P<year>\d{4})|(?P<month>may) (?P<day>\d{1,2}),? (?P<year>\d{4})",
    r"(?P<month>may) (?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)",
)
# How far a text must ask to mean the days and not to report them, and how many words need no question around them.
_ASKING = 0.5
_FEW_WORDS = 4
_FARTHEST_DAYS = 400

_LATIN_WORD = linear_re.compile(r"[^\W\d_]+")
_PAIRED = linear_re.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]$")
_REST = linear_re.compile(r"\p{Hangul}+|[\p{Han}\p{Hiragana}\p{Katakana}]?")
_UNITS = ("days", "weeks", "months")

_Days = tuple[date, date] | None
_Place = Callable[["linear_re.Match", str, date], _Days]


@dataclass(frozen=True, slots=True)
class PastDays:
    """The search words that name the days, and their first and last millisecond since 1970."""

    words: tuple[str, ...]
    since: int
    until: int


def find_past_days(text: str, now: int) -> list[PastDays]:
    """The days that a question, or a few words, name from ``now`` (milliseconds since 1970); none for a text that is a
    statement."""
    low = _fold(text)
    named = list(_find_named(low, find_date(now)))
    # "I saw her yesterday" reports a day, and must not narrow the search to it.
    if not named or (len(split_words(text)) > _FEW_WORDS and measure_speech_acts(text).asks < _ASKING):
        return []
    return [
        PastDays(tuple(split_words(words)), begin_of(first), begin_of(last + timedelta(days=1)) - 1)
        for words, first, last in named
    ]


def names_relative_day(text: str) -> bool:
    """Whether a text names a day by its distance from the day on which it was written: yesterday, two days ago, last
    Tuesday."""
    for found in _compile().finditer(_fold(text)):
        is_calendar_day = found["calendar"] or (found["weekday"] and not found["last"])
        if not is_calendar_day:
            return True
    return False


def _fold(text: str) -> str:
    # casefold makes "i" and a combining dot of the Turkish capital.
    return text.casefold().replace("’", "'").replace("i\u0307", "i")


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
    count = _find_number(found["count"], (each["numbers"] for each in tables("dates.ago").values()))
    if found["months"]:
        months = today.year * 12 + today.month - 1 - count
        if count * 30 <= _FARTHEST_DAYS:
            return _month(months)
        return None
    return _one(today, count * (7 if found["weeks"] else 1))


def _place_weekday(found: "linear_re.Match", low: str, today: date) -> _Days:
    if not found["last"] and not _is_past(low):
        return None
    weekday = ordered_words("dates.weekdays", "en").index(found["weekday"])
    # On a Tuesday "last Tuesday" is a week ago, not today.
    return _one(today, (today.weekday() - weekday) % 7 or 7)


def _place_last_weekday(found: "linear_re.Match", low: str, today: date) -> _Days:
    written = found["of_last_week"] or found["before_today"]
    weekdays = tables("dates.last_weekday").values()
    listed = [each["days"] for each in weekdays if ("of_last_week" in each) == bool(found["of_last_week"])]
    back = today.weekday() - (_find_number(written, listed) - 1)
    return _one(today, back + 7 if found["of_last_week"] else back % 7 or 7)


def _place_this(found: "linear_re.Match", low: str, today: date) -> _Days:
    if not _is_past(low):
        return None
    back = today.weekday() if found["this_week"] else today.day - 1 if found["this_month"] else 0
    return today - timedelta(days=back), today


def _place_calendar_day(found: "linear_re.Match", low: str, today: date) -> _Days:
    """Without a year the last such day."""
    month, day = _find_number(found["month"], texts("dates.months").values()), int(found["day"])
    for year in [int(found["year"])] if found["year"] else [today.year, today.year - 1]:
        try:
            named = date(year, month, day)
        # 29 February is in few years, and "the 31st of June" in none.
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
    "week": lambda found, low, today: (today - timedelta(days=7 + today.weekday()), today - timedelta(days=1)),
    "last_month": lambda found, low, today: _month(today.year * 12 + today.month - 2),
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


def _find_number(written: str, listed: Iterable[str]) -> int:
    """The number that is written in digits, or as a word of one of the lists, which begin with one."""
    if written.isdigit():
        return int(written)
    return next(
        number for words in listed for number, each in enumerate(words.split(), 1) if written in each.split("|")
    )


def _is_past(low: str) -> bool:
    """Whether a verb of a question is in the past: *on Tuesday* is then the last one."""
    return not word_set("dates.past").isdisjoint(_LATIN_WORD.findall(low))


def _any_language(name: str) -> str:
    return "|".join(texts(f"dates.{name}").values())


@cache
def _compile() -> linear_re.Pattern:
    weekdays = "|".join(ordered_words("dates.weekdays", "en"))
    months = texts("dates.months")
    others = "|".join(_either(listed) for language, listed in months.items() if language != "en")
    english = _either(months["en"].replace("may ", ""))
    named = {
        "before": _any_language("day_before_yesterday"),
        "yesterday": _any_language("yesterday"),
        "ago": "|".join(map(_write_ago, tables("dates.ago").values())),
        "last_weekday": "|".join(map(_write_weekday, tables("dates.last_weekday").values())),
        "today": _any_language("today"),
        "this_week": _any_language("this_week"),
        "this_month": _any_language("this_month"),
        "week": _any_language("last_week"),
        "last_month": _any_language("last_month"),
        "calendar": "|".join(
            [
                *(each.replace("M", others) for each in _CALENDAR_DAY),
                *(each.replace("M", english) for each in _ENGLISH_DAY),
                *_DAY_OF_MAY,
            ]
        ),
    }
    weekday = rf"(?P<last>last|this past)? ?(?:on )?(?P<weekday>{weekdays})"
    each = "|".join(f"(?P<{name}>{words})" for name, words in named.items())
    return linear_re.compile(
        rf"(?V1)(?<![[\p{{L}}\d]--[\p{{Han}}\p{{Hiragana}}\p{{Katakana}}]])(?:{each}|{weekday})(?![\p{{L}}--[\p{{Han}}\p{{Hiragana}}\p{{Katakana}}\p{{Hangul}}]])",
        engine="regex",
    )


def _write_ago(ago: Mapping[str, str]) -> str:
    """Days that lie a number of units back; N stands for the number and U for the unit."""
    units = "|".join(f"(?P<{name}>{ago[name]})" for name in _UNITS)
    number = rf"(?P<count>\d{{1,3}}|{_either(ago['numbers'])})"
    return ago["said"].replace("N", number).replace("U", f"(?:{units})")


def _write_weekday(weekday: Mapping[str, str]) -> str:
    """A day of the week that was last; W stands for the day."""
    name = "of_last_week" if "of_last_week" in weekday else "before_today"
    return weekday["said"].replace("W", f"(?P<{name}>{_either(weekday['days'])})")


def _either(words: str) -> str:
    return words.replace(" ", "|")
