"""Where two shown lines give different values for the same thing, the later one says that it is newer."""

import pytest

from layerlore.memory.context.context_blocks import FoldedTexts, MemoryFitter, ShownContext
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.recall.hit_lines import make_line, render_lines
from layerlore.memory.recall.memory_block import RecalledMemory
from layerlore.memory.recall.newer_lines import mark_newer
from layerlore.memory.recall.recall_text import render_json, render_text
from layerlore.memory.recall.results import Hit, ScoreParts
from layerlore.memory.text.echoes import strip_echoes
from layerlore.memory.text.quotation import PREAMBLE
from layerlore.storage.core.records import Message, Role

from ..entry_memory import DAY, NOW, Memory

COUNTER = load_counter()
PARTS = ScoreParts(0, 1.0, 1.0, {}, None, 1.0, (), ())


def message(
    seq: int, text: str, *, name: str = "Ana", thread: str = "main", role: Role = "user", days: int = 0
) -> Message:
    said_at = NOW + days * DAY
    parts = [{"type": "text", "text": text}]
    return Message(thread, seq, f"id{seq}", role, name, parts, {}, 2, "x", said_at, said_at, 1)


def marked(*messages: Message, sought: tuple[str, ...] = ()) -> list[str]:
    """The shown lines that have a mark."""
    lines = render_lines(mark_newer([make_line(each, {}) for each in messages], sought))
    return [line for line in lines if "newer than" in line]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("We meet on Fridays at 3 pm.", "The meeting is on Thursdays at 10 am now."),
        ("The discount is 15 %.", "The discount is now 12 %."),
        ("The rent is $900.", "The rent is $950."),
        ("My team has 5 people.", "My team has eight people now."),
        ("The deadline is March 3.", "The deadline is now March 10."),
        ("My manager is Ana.", "My manager is Bob."),
        ("The standup is at 3:00 pm.", "We moved the standup from 3:00 pm to 4:30 pm."),
        ("The standup is at 15:00.", "The standup now moves from 3 pm to 4 pm."),
        ("The move is on 1 December.", "No, the move is on 8 December, not 1 December."),
        ("The move is on Tuesday.", "Forget Tuesday, we move on Friday."),
        ("Der Umzug ist am 1. Dezember.", "Der Umzug ist am 8. Dezember und nicht am 1. Dezember."),
        ("Unser Team hat 5 Leute.", "Unser Team hat 7 Leute."),
        ("Das Meeting ist um 15:00 Uhr.", "Das Meeting ist jetzt um 16:30 Uhr."),
        ("Die Frist ist der 3. März.", "Die Frist ist der 10. März."),
        ("La réunion est à 15:00.", "La réunion est à 16:30."),
        ("El equipo tiene 5 personas.", "El equipo tiene 7 personas."),
        (
            "The kitchen renovation should take the builders 6 to 9 months, says Tom.",
            "Tom says the builders need 5 to 7 months for the kitchen renovation.",
        ),
    ],
)
def test_a_later_value_of_the_same_thing_is_marked(earlier: str, later: str) -> None:
    (line,) = marked(message(1, earlier), message(4, later))
    assert line == f"#4 user Ana (newer than #1): {later}"


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("I ran 5 km today.", "I ran 8 km today."),
        ("I ran 5 km.", "I ran 8 km."),
        ("I ate 3 cookies.", "I ate 5 cookies."),
        ("I read 3 books in June.", "I read 5 books in July."),
        ("I'm going to the gym on Friday.", "I'm going to the gym on Monday."),
        ("The party with the vegan ice cream was last Friday.", "The party with the vegan ice cream was last Monday."),
        ("I met Tom on March 3.", "I met Tom on March 10."),
        ("My sister has 2 cats.", "My brother has 3 cats."),
        ("Can we meet at 3 pm?", "Can we meet at 4 pm?"),
        ("See you at 7 pm!", "See you at 8 pm!"),
        ("I started surfing five years ago.", "I started painting three years ago."),
        ("The triangle has sides of 7, 24 and 25 cm.", "The triangle has sides of 9, 12 and 15 cm."),
        ("The project runs on Flask 2.3.1.", "The project has 3 sprints of 2 weeks each."),
        ("The discount is 15 %.", "The discount is 15 %."),
        ("The meeting is at 3 pm.", "The meeting is at 15:00."),
    ],
)
def test_different_events_and_things_have_no_mark(earlier: str, later: str) -> None:
    assert marked(message(1, earlier), message(4, later)) == []


def test_values_are_compared_of_one_speaker_alone() -> None:
    assert marked(message(1, "The rent is $900."), message(2, "The rent is $950.", name="Ben")) == []
    assert marked(message(1, "The rent is $900."), message(2, "The rent is $950.", role="assistant")) == []


def test_each_line_names_the_last_value_before_it() -> None:
    shown = marked(*(message(at, f"The rent is ${900 + at}.") for at in (1, 2, 3)))
    assert [line.partition(":")[0] for line in shown] == [
        "#2 user Ana (newer than #1)",
        "#3 user Ana (newer than #2)",
    ]


def test_a_line_of_another_thread_is_named_with_its_day() -> None:
    (line,) = marked(
        message(1, "The rent is $900.", thread="flat"),
        message(1, "The rent is $950.", thread="move", days=2),
    )
    assert line == "#1 user Ana (newer than #1 of 2025-06-15): The rent is $950."


def test_long_sentences_need_words_that_the_question_has() -> None:
    fill = [message(20 + at, f"Nothing else happened in week number {at}.") for at in range(8)]
    pair = (
        message(1, "I want to optimize the dashboard, whose API response time is about 280ms on slow phones."),
        message(9, "After a lot of caching and other work, I have the API response time at 220ms."),
    )
    assert len(marked(*pair, *fill, sought=("api", "response", "time"))) == 1
    assert marked(*pair, *fill, sought=("phones",)) == []


@pytest.mark.anyio
async def test_recall_marks_newer_values_in_text_and_in_json(memory: Memory) -> None:
    await memory.say("main", "The rent is $900.")
    memory.now += DAY
    await memory.say("main", "The rent is $950.")
    recalled = await memory.recall("How much is the rent?")
    text = render_text(recalled, COUNTER, now=NOW, detail="low", max_tokens=1500)
    assert "#1 user: The rent is $900." in text
    assert "#2 user (newer than #1): The rent is $950." in text
    hits = {hit["seq"]: hit for hit in render_json(recalled, COUNTER, now=NOW, detail="low", max_tokens=1500)["hits"]}
    assert hits[2]["newer_than"] == hits[1]["id"]
    assert "newer_than" not in hits[1]


def test_a_context_marks_newer_values_within_its_room() -> None:
    found = [message(1, "The rent is $900.", thread="flat"), message(2, "The rent is $950.", thread="flat")]
    memory = RecalledMemory((), tuple(Hit(each, 1.0, lambda: PARTS) for each in found), {"rent": 1.0})
    shown = ShownContext("main", [], 0, [], FoldedTexts())
    block = MemoryFitter(memory, COUNTER, now=NOW).fit(shown, 500).block
    assert block is not None
    assert "#2 user Ana (newer than #1): The rent is $950." in block.text
    for most in range(20, 120):
        assert MemoryFitter(memory, COUNTER, now=NOW).fit(shown, most).tokens <= most


def test_a_marked_line_that_comes_back_is_an_echo() -> None:
    for mark in ("newer than #1", "newer than #1 of 2025-06-15"):
        line = f"#2 user ({mark}): The rent is $950."
        assert strip_echoes(f"{PREAMBLE}\n{line}\nI paid it.") == "I paid it."
