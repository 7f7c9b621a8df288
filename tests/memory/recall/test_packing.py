"""Which messages fill an answer, and how they stand there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.parts.tokens import CUT_MARK, load_counter
from layerlore.memory.recall.evidence_budget import Evidence, pack_lines, rank_evidence
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


def evidence(found: Message, sought: Mapping[str, float] | None = None, *before: Message) -> Evidence:
    return Evidence(MessageTexts(found), sought or {}, before=before)


def pack(found: Sequence[Evidence], room: int, short_share: float = 0.3) -> list[MemoryLine]:
    order = rank_evidence(len(found), lambda at: found[at].texts.tokens_of_line)
    return pack_lines(((at, found[at]) for at in order), COUNTER, room, short_share=short_share).lines


def test_the_best_lines_that_fit_are_chosen() -> None:
    packed = pack([evidence(message(at, f"tea number {at} of many")) for at in range(1, 50)], 200)
    assert [line.message.seq for line in packed] == list(range(1, len(packed) + 1))
    assert COUNTER.text("\n".join(render_lines(packed))) in range(150, 201)


def test_a_whole_message_that_is_too_long_makes_room_for_what_fits() -> None:
    long = Evidence(MessageTexts(message(1, FILLER)), detail="high")
    best, last = (Evidence(MessageTexts(message(at, text)), detail="high") for at, text in ((2, "short"), (3, "brief")))
    packed = pack_lines(enumerate([best, long, last]), COUNTER, 100, passing_long=True).lines
    by_seq = {line.message.seq: line for line in packed}
    assert by_seq[2].is_whole
    assert by_seq[3].is_whole
    assert len(by_seq[1].text) < 200


def test_the_best_is_shown_with_its_sentences_that_match_where_it_does_not_fit_beside_others() -> None:
    long = message(
        1, "议事录。" + "上次的会议记录没有异议。" * 12 + "新办公室的租金是每月125万。" + "其他议题延到下次。" * 12
    )
    sought = {"办公": 1.0, "租金": 1.0}
    others = [evidence(message(at, f"Small talk number {at} about walks."), sought) for at in range(2, 6)]
    for room in (80, 120, 200):
        packed = pack([evidence(long, sought), *others], room)
        assert packed[0].message.seq == 1
        assert "新办公室的租金是每月125万。" in packed[0].text
        assert COUNTER.text("\n".join(render_lines(packed))) <= room


def test_further_hits_are_shown_as_their_sentence_that_matches_before_better_ones_are_whole() -> None:
    text = f"We walked along the river for an hour. The ferry number {{}} leaves at noon. {FILLER[:200]}"
    found = [evidence(message(at, text.format(at)), {"ferry": 1.0}) for at in range(1, 30)]
    lines = pack(found, 1000)
    whole = [line for line in lines if line.is_whole]
    assert len(lines) > len(whole) > 0
    assert [line.message.seq for line in whole] == list(range(1, len(whole) + 1))
    for line in lines[len(whole) :]:
        assert f"The ferry number {line.message.seq} leaves at noon." in line.text
        assert len(line.text.split()) <= 30


def test_an_overview_shows_more_hits_in_the_same_room() -> None:
    text = f"The ferry number {{}} leaves at noon. {FILLER[:300]}"
    found = [evidence(message(at, text.format(at)), {"ferry": 1.0}) for at in range(1, 60)]
    assert len(pack(found, 1000, 0.6)) > len(pack(found, 1000, 0.3)) > len(pack(found, 1000, 0.0))


def test_a_line_that_adds_no_word_takes_no_room_from_others_unless_it_has_a_word_looked_for() -> None:
    sought = {"ferry": 1.0}
    said = ["The ferry was great fun", "Great fun, really!", "Fun! Really great!", "The ferry, great!", "Lunch in Graz"]
    found = [evidence(message(at, text), sought) for at, text in enumerate(said, 1)]
    sizes = [len(pack(found, room)) for room in range(20, 120)]
    # The room where one of them is still missing.
    room = max(at for at, size in enumerate(sizes, 20) if size == len(said) - 1)
    assert [line.message.seq for line in pack(found, room)] == [1, 2, 4, 5]
    assert len(pack(found, 500)) == len(said)


def test_what_stands_beside_a_hit_follows_it_and_becomes_a_hit_where_it_is_one() -> None:
    question, answer = message(1, "Which tea do you like?"), message(2, "The green one.")
    packed = pack([evidence(answer, None, question)], 500)
    assert render_lines(packed)[1:] == ["  #1 user Ana: Which tea do you like?", "#2 user Ana: The green one."]
    packed = pack([evidence(answer, None, question), evidence(question)], 500)
    assert render_lines(packed)[1:] == ["#1 user Ana: Which tea do you like?", "#2 user Ana: The green one."]


def test_of_a_long_message_before_a_hit_the_end_is_shown_and_of_one_behind_it_the_beginning() -> None:
    around = message(1, f"It begins like this. {FILLER}Which tea do you like?")
    hit = MessageTexts(message(2, "The green one."))
    before = render_lines(pack([Evidence(hit, before=[around])], 500))[1]
    after = render_lines(pack([Evidence(hit, after=[replace(around, seq=3)])], 500))[2]
    assert before.startswith("  #1 user Ana: … ")
    assert before.endswith("Which tea do you like?")
    assert after.startswith("  #3 user Ana: It begins like this.")
    assert after.endswith(CUT_MARK)


def test_a_long_message_is_shown_as_the_sentences_that_match() -> None:
    long = message(1, f"{FILLER}The ferries leave Graz at nine o'clock. {FILLER}")
    (line,) = pack([evidence(long, {"ferry": 1.0, "graz": 1.0})], 500)
    assert "The ferries leave Graz at nine o'clock." in line.text
    assert len(line.text) < 400


WORDS = st.text("abcdefghij", min_size=1, max_size=6)


@given(
    st.lists(st.tuples(st.lists(WORDS, min_size=1, max_size=90), st.booleans(), st.integers(0, 3)), max_size=25),
    st.sampled_from([0.0, 0.3, 0.6]),
)
def test_with_more_room_than_the_best_line_needs_every_line_is_still_there_and_at_least_as_long(
    told: list[tuple[list[str], bool, int]], short_share: float
) -> None:
    found = []
    for at, (words, has_before, on) in enumerate(told, 1):
        text = f"{' '.join(words[:40])}. {' '.join(words[40:])}."
        before = [message(1000 + at, f"before {at}", said_at=NOW + on * DAY)] if has_before else []
        found.append(evidence(message(at, text, said_at=NOW + on * DAY), {"a": 1.0}, *before))
    earlier: dict[int, str] = {}
    for room in range(20, 1500, 70):
        lines = pack(found, room, short_share)
        if any(line.shortened for line in lines):
            assert [line.message.seq for line in lines] == [1]
            continue
        shown = {line.message.seq: line.text for line in lines}
        assert earlier.keys() <= shown.keys()
        assert all(len(shown[seq]) >= len(text) for seq, text in earlier.items())
        earlier = shown


def test_no_more_hits_are_taken_than_there_is_room_for() -> None:
    taken: list[int] = []

    def coming() -> Iterator[tuple[int, Evidence]]:
        for at in range(50):
            taken.append(at)
            yield at, evidence(message(at + 1, f"tea number {at} of many"))

    packed = pack_lines(coming(), COUNTER, 100).lines
    assert len(packed) <= len(taken) <= len(packed) + 1


@given(st.lists(st.integers(0, 400), max_size=60))
def test_hits_come_in_the_order_of_what_they_are_worth(words: list[int]) -> None:
    found = [MessageTexts(message(at, "tea " * count)) for at, count in enumerate(words, 1)]

    def worth(at: int) -> float:
        return float((at + 1) ** -1.15 / (found[at].tokens_of_line + 8) ** 0.5)

    order = rank_evidence(len(found), lambda at: found[at].tokens_of_line)
    assert [*order] == sorted(range(len(found)), key=lambda at: (-worth(at), at))


def test_no_more_hits_are_looked_at_than_the_first_places_need() -> None:
    looked: list[int] = []

    def find_cost(at: int) -> int:
        looked.append(at)
        return 5

    order = rank_evidence(200, find_cost)
    assert [next(order) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(looked) < 50


def test_an_observation_that_repeats_a_message_takes_no_room_from_others() -> None:
    sought = {"ferry": 1.0}
    note = Message(
        "",
        1,
        "note",
        "observation",
        None,
        [{"type": "text", "text": "user: the ferry leaves"}],
        {},
        2,
        "x",
        NOW,
        NOW,
        1,
    )  # type: ignore[arg-type]
    said = [message(at, f"The ferry leaves from pier {at}") for at in range(1, 9)]
    found = [evidence(said[0], sought), evidence(note, sought), *(evidence(each, sought) for each in said[1:])]
    for room in range(60, 140):
        shown = pack(found, room)
        if len(shown) == len(said):
            assert all(str(line.message.role) == "user" for line in shown)
    assert len(pack(found, 1000)) == len(found)
