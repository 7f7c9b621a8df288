"""Which messages fill an answer, and how they stand there."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.parts.tokens import CUT_MARK, load_counter
from layerlore.memory.recall.evidence_budget import FoundMessage, pack_lines, pack_ranked, rank_messages
from layerlore.memory.recall.hit_lines import MemoryLine, MessageTexts, make_line, render_lines
from layerlore.storage.core.records import Message

COUNTER = load_counter()
NOW = 1_700_000_000_000
DAY = 86_400_000
FILLER = "Nothing of that is what anybody looked for, and nobody ever will. " * 40


def message(seq: int, text: str, thread: str = "main", said_at: int = NOW) -> Message:
    parts = [{"type": "text", "text": text}]
    return Message(thread, seq, f"id{seq}", "user", "Ana", parts, {}, 2, "x", said_at, said_at, 1)


def lines_of(*messages: Message) -> list[MemoryLine]:
    return [make_line(each, {}) for each in messages]


def test_lines_of_a_thread_and_a_day_share_a_head_in_time_order() -> None:
    shown = render_lines(
        lines_of(
            message(7, "first"),
            message(2, "second", "other"),
            message(9, "third", said_at=NOW + DAY),
            message(3, "fourth"),
        )
    )
    assert shown == [
        "[thread main, 2023-11-14]",
        "#3 user Ana: fourth",
        "#7 user Ana: first",
        "[thread other, 2023-11-14]",
        "#2 user Ana: second",
        "[thread main, 2023-11-15]",
        "#9 user Ana: third",
    ]


def test_the_best_lines_that_fit_are_chosen() -> None:
    scored = [FoundMessage(message(at, f"tea number {at} of many")) for at in range(1, 50)]
    packed = pack_lines(scored, COUNTER, 200, {})
    assert [line.message.seq for line in packed] == list(range(1, len(packed) + 1))
    assert COUNTER.text("\n".join(render_lines(packed))) in range(150, 201)


def test_what_is_too_long_makes_room_for_what_fits() -> None:
    long = replace(message(1, FILLER), parts=[{"type": "text", "text": FILLER}])
    best, last = FoundMessage(message(2, "short")), FoundMessage(message(3, "brief"))
    packed = pack_lines([best, FoundMessage(long), last], COUNTER, 60, {}, detail="high")
    assert [line.message.seq for line in packed] == [2, 3]


def test_the_best_is_shown_with_its_sentences_that_match_where_it_does_not_fit_beside_others() -> None:
    long = message(
        1, "议事录。" + "上次的会议记录没有异议。" * 12 + "新办公室的租金是每月125万。" + "其他议题延到下次。" * 12
    )
    others = [FoundMessage(message(at, f"Small talk number {at} about walks.")) for at in range(2, 6)]
    sought = {"办公": 1.0, "租金": 1.0}
    for room in (80, 120, 200):
        packed = pack_lines([FoundMessage(long), *others], COUNTER, room, sought)
        assert packed[0].message.seq == 1
        assert "新办公室的租金是每月125万。" in packed[0].text
        assert COUNTER.text("\n".join(render_lines(packed))) <= room


def test_instead_of_a_long_line_two_short_ones_are_chosen() -> None:
    scored = [
        FoundMessage(message(1, "brief")),
        FoundMessage(message(2, "a long story " * 20)),
        FoundMessage(message(3, "short")),
        FoundMessage(message(4, "shorter")),
    ]
    assert [line.message.seq for line in pack_lines(scored, COUNTER, 60, {})] == [1, 3, 4]


def test_what_stands_beside_a_hit_follows_it_and_becomes_a_hit_where_it_is_one() -> None:
    question, answer = message(1, "Which tea do you like?"), message(2, "The green one.")
    packed = pack_lines([FoundMessage(answer, before=[question])], COUNTER, 500, {})
    assert render_lines(packed)[1:] == ["  #1 user Ana: Which tea do you like?", "#2 user Ana: The green one."]
    both = [FoundMessage(answer, before=[question]), FoundMessage(question)]
    packed = pack_lines(both, COUNTER, 500, {})
    assert render_lines(packed)[1:] == ["#1 user Ana: Which tea do you like?", "#2 user Ana: The green one."]


def test_of_a_long_message_before_a_hit_the_end_is_shown_and_of_one_behind_it_the_beginning() -> None:
    around = message(1, f"It begins like this. {FILLER}Which tea do you like?")
    hit = message(2, "The green one.")
    before = render_lines(pack_lines([FoundMessage(hit, before=[around])], COUNTER, 500, {}))[1]
    after = render_lines(pack_lines([FoundMessage(hit, after=[replace(around, seq=3)])], COUNTER, 500, {}))[2]
    assert before.startswith("  #1 user Ana: … ")
    assert before.endswith("Which tea do you like?")
    assert after.startswith("  #3 user Ana: It begins like this.")
    assert after.endswith(CUT_MARK)


def test_a_long_message_is_shown_as_the_sentences_that_match() -> None:
    long = message(1, f"{FILLER}The ferries leave Graz at nine o'clock. {FILLER}")
    (line,) = pack_lines([FoundMessage(long)], COUNTER, 500, {"ferry": 1.0, "graz": 1.0})
    assert "The ferries leave Graz at nine o'clock." in line.text
    assert len(line.text) < 400


def test_of_ranked_lines_none_is_passed_over_and_with_more_tokens_each_is_at_least_as_long() -> None:
    found = [message(at, f"tea number {at} " + "of many " * (at % 5 * 6)) for at in range(1, 30)]
    order = [*rank_messages([MessageTexts(each) for each in found])]
    before: dict[int, str] = {}
    for room in range(20, 600, 20):
        packed = pack_ranked(((at, make_line(found[at], {})) for at in order), COUNTER, room)
        shown = {line.message.seq: line.text for line in packed}
        assert list(shown) == sorted(shown)
        assert {*shown} == {found[at].seq for at in order[: len(shown)]}
        cut = [text for text in shown.values() if text.endswith(CUT_MARK)]
        assert len(cut) <= 1
        assert all(shown[seq].startswith(text.removesuffix(CUT_MARK)) for seq, text in before.items())
        before = shown
    assert len(before) > 10


def test_of_ranked_lines_no_more_are_made_than_are_looked_at() -> None:
    made: list[int] = []

    def lines() -> Iterator[tuple[int, MemoryLine]]:
        for at in range(50):
            made.append(at)
            yield at, make_line(message(at + 1, f"tea number {at} of many"), {})

    packed = pack_ranked(lines(), COUNTER, 100)
    assert len(packed) <= len(made) <= len(packed) + 1


@given(st.lists(st.integers(0, 400), max_size=60))
def test_ranked_messages_come_in_the_order_of_what_they_are_worth(words: list[int]) -> None:
    found = [MessageTexts(message(at, "tea " * count)) for at, count in enumerate(words, 1)]

    def worth(at: int) -> float:
        return float((at + 1) ** -1.15 / (found[at].tokens_of_line + 8) ** 0.5)

    assert [*rank_messages(found)] == sorted(range(len(found)), key=lambda at: (-worth(at), at))


def test_no_more_messages_are_looked_at_than_the_first_places_need() -> None:
    looked: list[int] = []

    class Seen(MessageTexts):
        @property
        def tokens_of_line(self) -> int:
            looked.append(self.message.seq)
            return super().tokens_of_line

    order = rank_messages([Seen(message(at, "tea of many")) for at in range(1, 200)])
    assert [next(order) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(looked) < 50
