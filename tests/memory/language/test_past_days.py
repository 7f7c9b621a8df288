"""Questions that name a day from today: yesterday, last week."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from layerlore.memory.language.past_days import find_past_days
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.storage.core.records import DAY_MS

from ..entry_memory import Memory

pytestmark = pytest.mark.anyio

NOW = int(datetime(2026, 11, 25, 16, tzinfo=UTC).timestamp() * 1000)  # a Wednesday


def found(text: str) -> list[tuple[str, str]]:
    days = ((each.since, each.until) for each in find_past_days(text, NOW))
    return [(f"{day(since):%d %b}", f"{day(until):%d %b}") for since, until in days]


def day(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What did I do yesterday?", "24 Nov", "24 Nov"),
        ("summarise yesterday's conversation", "24 Nov", "24 Nov"),
        ("yesterday", "24 Nov", "24 Nov"),
        ("What did we say the day before yesterday?", "23 Nov", "23 Nov"),
        ("What happened two days ago?", "23 Nov", "23 Nov"),
        ("What did I tell you 3 weeks ago?", "04 Nov", "04 Nov"),
        ("Who called last Wednesday?", "18 Nov", "18 Nov"),
        ("What did I buy on Tuesday?", "24 Nov", "24 Nov"),
        ("What did we talk about last week?", "16 Nov", "24 Nov"),
        ("What did we spend last month?", "01 Oct", "31 Oct"),
        ("Was habe ich gestern gemacht?", "24 Nov", "24 Nov"),
        ("Was habe ich vorgestern gemacht?", "23 Nov", "23 Nov"),
        ("Worüber sprachen wir letzte Woche?", "16 Nov", "24 Nov"),
        ("Was sagte ich vor 5 Tagen?", "20 Nov", "20 Nov"),
        ("Qu'est-ce que j’ai dit avant-hier ?", "23 Nov", "23 Nov"),
        ("¿Qué dije el mes pasado?", "01 Oct", "31 Oct"),
        ("Cosa ho detto ieri?", "24 Nov", "24 Nov"),
        ("O que eu disse ontem?", "24 Nov", "24 Nov"),
        ("Wat zei ik gisteren?", "24 Nov", "24 Nov"),
        ("Co mówiłem wczoraj?", "24 Nov", "24 Nov"),
        ("Что я говорил вчера?", "24 Nov", "24 Nov"),
        ("Dün ne dedim?", "24 Nov", "24 Nov"),
        ("昨天我说了什么？", "24 Nov", "24 Nov"),
        ("先週何を話した？", "16 Nov", "24 Nov"),
        ("어제 뭐라고 했지?", "24 Nov", "24 Nov"),
        ("What did we decide today?", "25 Nov", "25 Nov"),
        ("What did we talk about this week?", "23 Nov", "25 Nov"),
        ("What did we spend this month?", "01 Nov", "25 Nov"),
        ("Was habe ich vor drei Tagen erzählt?", "22 Nov", "22 Nov"),
        ("Was haben wir vor einer Woche besprochen?", "18 Nov", "18 Nov"),
        ("Qu'est-ce que j'ai dit il y a trois jours ?", "22 Nov", "22 Nov"),
        ("¿Qué dijimos hace dos semanas?", "11 Nov", "11 Nov"),
        ("Cosa ho detto tre giorni fa?", "22 Nov", "22 Nov"),
        ("O que eu disse há três dias?", "22 Nov", "22 Nov"),
        ("Wat zei ik drie dagen geleden?", "22 Nov", "22 Nov"),
        ("Co mówiłem trzy dni temu?", "22 Nov", "22 Nov"),
        ("Что я говорил три дня назад?", "22 Nov", "22 Nov"),
        ("Üç gün önce ne dedim?", "22 Nov", "22 Nov"),
        ("三天前我说了什么？", "22 Nov", "22 Nov"),
        ("两周前我们说了什么？", "11 Nov", "11 Nov"),
        ("3日前に何を話しましたか？", "22 Nov", "22 Nov"),
        ("3일 전에 뭐라고 했지?", "22 Nov", "22 Nov"),
        ("What happened three months ago?", "01 Aug", "31 Aug"),
        ("Was haben wir letzten Freitag besprochen?", "20 Nov", "20 Nov"),
        ("Qu'est-ce qu'on a dit mercredi dernier ?", "18 Nov", "18 Nov"),
        ("¿Qué hablamos el viernes pasado?", "20 Nov", "20 Nov"),
        ("Wat zeiden we afgelopen dinsdag?", "24 Nov", "24 Nov"),
        ("Geçen cuma ne konuştuk?", "20 Nov", "20 Nov"),
        ("上周二我们说了什么？", "17 Nov", "17 Nov"),
        ("先週の火曜日に何を話しましたか？", "17 Nov", "17 Nov"),
        ("Was habe ich am 2. März gesagt?", "02 Mar", "02 Mar"),
        ("Qu'est-ce que j'ai dit le 1er septembre ?", "01 Sep", "01 Sep"),
        ("¿Qué dije el 24 de diciembre?", "24 Dec", "24 Dec"),
        ("9月2日に何を話しましたか？", "02 Sep", "02 Sep"),
        ("2 Eylül'de ne dedim?", "02 Sep", "02 Sep"),
    ],
)
def test_a_question_names_days_of_the_past(text: str, first: str, last: str) -> None:
    assert found(text) == [(first, last)]


@pytest.mark.parametrize(
    "text",
    [
        "Yesterday I bought a blue kayak from Decathlon.",
        "I went to the gym yesterday and hurt my knee; what should I do?",
        "What do I have on Tuesday?",
        "What shall I cook today?",
        "What did I say 999 days ago?",
        "What did I say 1234 days ago?",
        "十五天前我说了什么？",
        "Was habe ich am 31. Februar gesagt?",
        "Is Kahiere a name?",
        "What is my sister's name?",
    ],
)
def test_what_tells_of_a_day_or_means_the_future_names_none(text: str) -> None:
    assert found(text) == []


async def test_what_was_said_yesterday_is_found_by_that_and_nothing_is_where_nothing_was_said(
    memory_of: Callable[..., Memory],
) -> None:
    memory = memory_of()
    for number in range(1, 12):
        at = memory.now - number * DAY_MS
        await memory.say(f"day {number}", f"Chapter {number} is finished, the fence as well.", created_at=iso(at))
    await memory.say("kayak", "I bought a blue kayak from Decathlon.", created_at=iso(memory.now - DAY_MS))
    assert set((await memory.found("What did we talk about yesterday?"))[:2]) == {
        "I bought a blue kayak from Decathlon.",
        "Chapter 1 is finished, the fence as well.",
    }
    assert (await memory.found("What did I do three days ago?"))[0].startswith("Chapter 3")
    assert (await memory.found("What did I finish 5 days ago?"))[0].startswith("Chapter 5")
    assert not any("kayak" in text for text in await memory.found("What happened 30 days ago?", thread_id="day 2"))


def iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat()


@pytest.mark.parametrize(
    "question",
    [
        "Was haben wir vor drei Tagen besprochen?",
        "Qu'est-ce que j'ai dit il y a trois jours ?",
        "昨天我到底和你说了些什么事情？",
    ],
)
async def test_a_question_about_a_day_is_never_answered_with_nothing_where_something_was_said_then(
    memory_of: Callable[..., Memory], question: str
) -> None:
    memory = memory_of()
    memory.engine = replace(memory.engine, recall=RecallRules())
    for number in range(1, 16):
        at = memory.now - number * DAY_MS
        await memory.say(f"day {number}", f"Chapter {number} is finished, the fence as well.", created_at=iso(at))
    day = 1 if "昨天" in question else 3
    assert any(text.startswith(f"Chapter {day} ") for text in await memory.found(question))
