"""How languages name days of the past, for text in small letters with straight apostrophes.

Where words are given by number, those of one number are parted by ``|``, and they come in the order of numbers.
"""

from dataclasses import dataclass

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
