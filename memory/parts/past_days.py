"""Days of the past that a question names from today: yesterday, two days ago, last Tuesday, last week. In ten languages and
the scripts that put no space between words; weekdays in English."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache

import regex

from layerlore.memory.parts.search_words import WEEKDAYS, split_words
from layerlore.memory.parts.speech_acts import measure_speech_acts
from layerlore.memory.rules.ages import DAY_MS

_EPOCH = date(1970, 1, 1)
# How far a text must ask to mean the days and not to tell of them, and how many words need no question around them.
_ASKING = 0.5
_FEW_WORDS = 4
_FARTHEST_DAYS = 400

_YESTERDAY = (
    r"yesterday|last night|gestern|hier|ayer|ieri|ontem|gisteren|wczoraj|вчера|dün|昨天|昨日|어제",
    r"(?:the )?day before yesterday|vorgestern|avant-hier|anteayer|antier|l'altro ieri|anteontem|eergisteren|przedwczoraj"
    r"|позавчера|evvelsi gün|前天|一昨日|그저께",
)
_WEEK = (
    r"last week|(?:letzte|vorige|vergangene)[nr]? woche|semaine (?:dernière|passée)|semana pasada|settimana scorsa|scorsa settimana"
    r"|semana passada|(?:vorige|afgelopen) week|(?:zeszły|ubiegły)m tygodniu|прошлой неделе|geçen hafta|上周|上个星期|先週|지난주"
)
_MONTH = (
    r"last month|(?:letzten|vorigen|vergangenen) monat|mois (?:dernier|passé)|mes pasado|mese scorso|scorso mese|mês passado"
    r"|(?:vorige|afgelopen) maand|(?:zeszły|ubiegły)m miesiącu|прошлом месяце|geçen ay|上个月|上個月|先月|지난달"
)
_AGO = (
    r"(?P<count>\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten) (?P<unit>day|week)s? ago"
    r"|vor (?P<count2>\d{1,3}) (?:tagen|tag)|il y a (?P<count3>\d{1,3}) jours?|hace (?P<count4>\d{1,3}) días?"
)
_COUNTS = dict(
    zip(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], range(1, 11), strict=True)
)
_WEEKDAY = rf"(?P<last>last|this past)? ?(?:on )?(?P<weekday>{'|'.join(WEEKDAYS)})"
_PAST = regex.compile(r"\b(?:did|was|were|had|said|told|talked|discussed|happened|went)\b")


@dataclass(frozen=True, slots=True)
class PastDays:
    """The search words that name the days, and their first and last millisecond since 1970, by UTC."""

    words: tuple[str, ...]
    since: int
    until: int


def find_past_days(text: str, now: int) -> list[PastDays]:
    """The days that a question, or a few words, name from ``now`` (milliseconds since 1970); none of a text that tells."""
    low = text.casefold().replace("’", "'")
    named = list(_find_named(low, datetime.fromtimestamp(now / 1000, UTC).date()))
    if not named or (len(split_words(text)) > _FEW_WORDS and measure_speech_acts(text).asks < _ASKING):
        return []
    return [
        PastDays(tuple(split_words(words)), _to_ms(first), _to_ms(last + timedelta(days=1)) - 1)
        for words, first, last in named
    ]


def _find_named(low: str, today: date) -> Iterator[tuple[str, date, date]]:
    for found in _compile().finditer(low):
        if (days := _place(found, low, today)) is not None:
            yield found[0], *days


def _place(found: "regex.Match[str]", low: str, today: date) -> tuple[date, date] | None:
    if found["weekday"]:
        if not found["last"] and not _PAST.search(low):
            return None
        back = (today.weekday() - WEEKDAYS.index(found["weekday"])) % 7 or 7
        return _one(today, back)
    if found["week"]:
        return today - timedelta(days=7 + today.weekday()), today - timedelta(days=1)
    if found["month"]:
        last = today.replace(day=1) - timedelta(days=1)
        return last.replace(day=1), last
    if found["ago"]:
        count = next(filter(None, (found["count"], found["count2"], found["count3"], found["count4"])))
        days = int(count) if count.isdigit() else _COUNTS.get(count, 1)
        return _one(today, days * (7 if found["unit"] == "week" else 1))
    return _one(today, 2 if found["before"] else 1)


def _one(today: date, back: int) -> tuple[date, date] | None:
    return (today - timedelta(days=back),) * 2 if back <= _FARTHEST_DAYS else None


def _to_ms(day: date) -> int:
    return (day - _EPOCH).days * DAY_MS


@cache
def _compile() -> "regex.Pattern[str]":
    """At its first use."""
    named = {"before": _YESTERDAY[1], "yesterday": _YESTERDAY[0], "week": _WEEK, "month": _MONTH, "ago": _AGO}
    each = "|".join(f"(?P<{name}>{words})" for name, words in named.items())
    return regex.compile(
        rf"(?<![\p{{L}}--[\p{{Han}}\p{{Hiragana}}\p{{Katakana}}]])(?:{each}|{_WEEKDAY})(?![\p{{L}}--[\p{{Han}}\p{{Hiragana}}\p{{Katakana}}\p{{Hangul}}]])",
        regex.V1,
    )
