"""Days that an entry names by their date, and a message from when it was said: tomorrow, next week."""

from collections.abc import Iterator
from datetime import UTC, date, datetime

import regex

from layerlore.memory.entries.claim import EntryClaim
from layerlore.memory.entries.evidence import EvidenceText
from layerlore.memory.entries.telling_words import TellingWord, list_telling
from layerlore.memory.parts.speech_acts import fold_sentence

_NEAR_DAYS = 45
_ISO = regex.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_WRITTEN = regex.compile(
    rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?P<month>{'|'.join(_MONTHS)})|(?P<month2>{'|'.join(_MONTHS)}) (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?),? ?(?P<year>\d{{4}})?",
    regex.IGNORECASE,
)
_RELATIVE = regex.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|(?:last|next|this|in a|a|in \w+|\w+) (?:week|weekend|month|days?|weeks)|ago|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|heute|morgen|gestern|(?:nächste|letzte|diese)\w* \w+|aujourd'hui|demain|hier|hoy|mañana|ayer|oggi|domani|ieri|hoje|amanhã|ontem|vandaag|gisteren|dziś|jutro|wczoraj|сегодня|завтра|вчера|bugün|yarın|dün)\b"
    r"|今天|明天|昨天|今日|明日|昨日|오늘|내일|어제"
)


def is_dated(claim: EntryClaim, word: TellingWord, message: EvidenceText) -> bool:
    """Whether a number or a month of an entry belongs to a day that the message names from when it was said."""
    if not message.said_at or (word.kind == "word"):
        return False
    on = datetime.fromtimestamp(message.said_at / 1000, UTC).date()
    low = fold_sentence(message.text)
    if word.text == str(on.year) and any(
        each.key.startswith(("month:", "day:")) for each in list_telling(message.text)
    ):
        return True
    if not _RELATIVE.search(low):
        return False
    for begins, ends, day in _find_dates(claim.content, on):
        if begins <= word.at < ends:
            return abs((day - on).days) <= _NEAR_DAYS
    return False


def _find_dates(content: str, on: date) -> Iterator[tuple[int, int, date]]:
    for found in _ISO.finditer(content):
        yield from _as_date(found.start(), found.end(), int(found[1]), int(found[2]), int(found[3]))
    for found in _WRITTEN.finditer(content):
        month = _MONTHS.index((found["month"] or found["month2"]).lower()) + 1
        year = int(found["year"]) if found["year"] else on.year
        yield from _as_date(found.start(), found.end(), year, month, int(found["day"] or found["day2"]))


def _as_date(begins: int, ends: int, year: int, month: int, day: int) -> Iterator[tuple[int, int, date]]:
    try:
        yield begins, ends, date(year, month, day)
    except ValueError:
        return
