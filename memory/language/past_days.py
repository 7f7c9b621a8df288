"""Days of the past that a question names: yesterday, two days ago, last Tuesday, last week, 2 September. A bare
*on Tuesday*, *today* and *this week* are known in English.

The words of the languages are for text in small letters with straight apostrophes. Where words are given by number, those
of one number are parted by ``|``, and they come in the order of numbers.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache

from layerlore.memory.language.search_words import WEEKDAYS, split_words
from layerlore.memory.language.speech_acts import measure_speech_acts
from layerlore.memory.rules.ages import DAY_MS
from layerlore.storage.core import linear_re

YESTERDAY = (
    r"yesterday|last night|gestern|hier|ayer|ieri|ontem|gisteren|wczoraj|вчера|dün|昨天|昨日|어제",
    r"(?:the )?day before yesterday|vorgestern|avant-hier|anteayer|antier|l'altro ieri|anteontem|eergisteren|przedwczoraj"
    r"|позавчера|evvelsi gün|前天|一昨日|그저께|이틀 전",
)
TODAY = "today|this morning"
THIS_WEEK = "this week"
THIS_MONTH = "this month"
LAST_WEEK = (
    r"last week|(?:letzte|vorige|vergangene)[nr]? woche|semaine (?:dernière|passée)|semana pasada|settimana scorsa|scorsa settimana"
    r"|semana passada|(?:vorige|afgelopen) week|(?:zeszły|ubiegły)m tygodniu|прошлой неделе|geçen hafta|上周|上个星期|先週|지난주"
)
LAST_MONTH = (
    r"last month|(?:letzten|vorigen|vergangenen) monat|mois (?:dernier|passé)|mes pasado|mese scorso|scorso mese|mês passado"
    r"|(?:vorige|afgelopen) maand|(?:zeszły|ubiegły)m miesiącu|прошлом месяце|geçen ay|上个月|上個月|先月|지난달"
)


@dataclass(frozen=True, slots=True)
class Ago:
    """Days that lie a number of units back. In ``said`` stand N for the number and U for the unit; ``numbers``: one to
    ten; ``units``: expressions for days, weeks and months."""

    said: str
    numbers: str
    units: tuple[str, str, str]


AGO = (
    Ago("N U ago", "a|an|one two three four five six seven eight nine ten", ("days?", "weeks?", "months?")),
    Ago(
        "vor N U",
        "einem|einer zwei drei vier fünf sechs sieben acht neun zehn",
        ("tag(?:en)?", "wochen?", "monat(?:en)?"),
    ),
    Ago("il y a N U", "un|une deux trois quatre cinq six sept huit neuf dix", ("jours?", "semaines?", "mois")),
    Ago("hace N U", "un|una dos tres cuatro cinco seis siete ocho nueve diez", ("d[ií]as?", "semanas?", "mes(?:es)?")),
    Ago("N U fa", "un|una due tre quattro cinque sei sette otto nove dieci", ("giorn[oi]", "settiman[ae]", "mes[ei]")),
    Ago(
        "(?:há N U|N U atrás)",
        "um|uma dois|duas três quatro cinco seis sete oito nove dez",
        ("dias?", "semanas?", "m[êe]s(?:es)?"),
    ),
    Ago(
        "N U geleden",
        "een|één twee drie vier vijf zes zeven acht negen tien",
        ("dag(?:en)?", "week|weken", "maand(?:en)?"),
    ),
    Ago(
        "N U temu",
        "jeden dwa|dwie trzy cztery pięć sześć siedem osiem dziewięć dziesięć",
        ("dzień|dni", "tydzień|tygodni(?:e)?", "miesiąc(?:e)?|miesięcy"),
    ),
    Ago(
        "N U назад",
        "один|одну два|две три четыре пять шесть семь восемь девять десять",
        ("день|дня|дней", "недел[юи]|недель", "месяц(?:а|ев)?"),
    ),
    Ago("N U önce", "bir iki üç dört beş altı yedi sekiz dokuz on", ("gün", "hafta", "ay")),
    Ago(
        "(?<![一二三四五六七八九十百两兩])N ?U(?:以|之)?前",
        "一 二|两|兩 三 四 五 六 七 八 九 十",
        ("天|日", "周|週間?|(?:个|個)?(?:星期|礼拜|禮拜)", "(?:个|個|か|ヶ|ヵ|カ)月"),
    ),
    Ago(
        "N ?U ?전",
        "일|한 이|두 삼|세 사|네 오|다섯 육|여섯 칠|일곱 팔|여덟 구|아홉 십|열",
        ("일", "주일?", "개월|달"),
    ),
)


@dataclass(frozen=True, slots=True)
class LastWeekday:
    """A day of the week that was last. In ``said`` stands W for the day; ``days``: Monday to Sunday. ``of_last_week``:
    it is that of the week before this one, and not the one before today."""

    said: str
    days: str
    of_last_week: bool = False


LAST_WEEKDAYS = (
    LastWeekday(
        "(?:letzte|vorige|vergangene)[nr]? W", "montag dienstag mittwoch donnerstag freitag samstag|sonnabend sonntag"
    ),
    LastWeekday("W (?:dernier|passé)", "lundi mardi mercredi jeudi vendredi samedi dimanche"),
    LastWeekday("(?:W pasado|pasado W)", "lunes martes miércoles jueves viernes sábado domingo"),
    LastWeekday("(?:W scors[oa]|scors[oa] W)", "lunedì martedì mercoledì giovedì venerdì sabato domenica"),
    LastWeekday("W(?:-feira)? passad[oa]", "segunda terça quarta quinta sexta sábado domingo"),
    LastWeekday("(?:vorige|afgelopen) W", "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag"),
    LastWeekday("(?:zeszł|ubiegł)(?:y|ą) W", "poniedziałek wtorek środę czwartek piątek sobotę niedzielę"),
    LastWeekday("прошл(?:ый|ую|ое) W", "понедельник вторник среду четверг пятницу субботу воскресенье"),
    LastWeekday("geçen W", "pazartesi salı çarşamba perşembe cuma cumartesi pazar"),
    LastWeekday("上(?:个|個)?(?:周|週|星期|礼拜|禮拜)W", "一 二 三 四 五 六 日|天", of_last_week=True),
    LastWeekday("先週の?W曜日?", "月 火 水 木 金 土 日", of_last_week=True),
    LastWeekday("지난 ?주 ?W요일", "월 화 수 목 금 토 일", of_last_week=True),
)

MONTHS = (
    "januar februar märz april mai juni juli august september oktober november dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre|setiembre octubre noviembre diciembre",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "januari februari maart april mei juni juli augustus september oktober november december",
    "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
    "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
)
"""January to December, as they stand behind a day's number."""
CALENDAR_DAY = (
    r"(?P<day>\d{1,2})(?:\.|er)? ?(?:de )?(?P<month>M)(?:,? (?:de )?(?P<year>\d{4}))?",
    r"(?:(?P<year>\d{4}) ?[年년] ?)?(?P<month>\d{1,2}) ?[月월] ?(?P<day>\d{1,2}) ?[日号號일]",
)
"""In the first stands M for a month's name."""


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
    count = _find_number(found["count"], (each.numbers for each in AGO))
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
    listed = (each.days for each in LAST_WEEKDAYS if each.of_last_week == bool(found["of_last_week"]))
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
    month, day = _find_number(found["month"], MONTHS), int(found["day"])
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
        "before": YESTERDAY[1],
        "yesterday": YESTERDAY[0],
        "ago": "|".join(map(_write_ago, AGO)),
        "last_weekday": "|".join(map(_write_weekday, LAST_WEEKDAYS)),
        "today": TODAY,
        "this_week": THIS_WEEK,
        "this_month": THIS_MONTH,
        "week": LAST_WEEK,
        "last_month": LAST_MONTH,
        "calendar": "|".join(CALENDAR_DAY).replace("M", "|".join(map(_either, MONTHS))),
    }
    each = "|".join(f"(?P<{name}>{words})" for name, words in named.items())
    return linear_re.compile(
        rf"(?V1)(?<![[\p{{L}}\d]--[\p{{Han}}\p{{Hiragana}}\p{{Katakana}}]])(?:{each}|{_WEEKDAY})(?![\p{{L}}--[\p{{Han}}\p{{Hiragana}}\p{{Katakana}}\p{{Hangul}}]])",
        engine="regex",
    )


def _write_ago(ago: Ago) -> str:
    units = "|".join(f"(?P<{name}>{words})" for name, words in zip(_UNITS, ago.units, strict=True))
    number = rf"(?P<count>\d{{1,3}}|{_either(ago.numbers)})"
    return ago.said.replace("N", number).replace("U", f"(?:{units})")


def _write_weekday(weekday: LastWeekday) -> str:
    if weekday.of_last_week:
        name = "of_last_week"
    else:
        name = "before_today"
    return weekday.said.replace("W", f"(?P<{name}>{_either(weekday.days)})")


def _either(words: str) -> str:
    return words.replace(" ", "|")
